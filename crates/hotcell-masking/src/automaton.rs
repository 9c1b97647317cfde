//! Finds many texts in one pass over another: a step for each byte, however often something is
//! found (Aho and Corasick, 1975).

use std::collections::VecDeque;

/// A place in the tree of all patterns.
pub(super) type State = u32;
/// Where nothing of a pattern is there yet.
pub(super) const START: State = 0;
/// In the place of a node or pattern that is not there: nothing leads back to the start.
const NONE: u32 = 0;

/// The tree of all patterns; the first node is the start.
pub(super) struct Automaton {
    nodes: Vec<Node>,
    lengths: Vec<usize>,
    #[cfg(test)]
    looked_at: std::cell::Cell<usize>,
}

#[derive(Default)]
struct Node {
    child: State,
    sibling: State,
    /// The longest end of this text that another pattern begins with.
    fallback: State,
    depth: u32,
    /// The pattern that is this text, counted from one.
    whole: u32,
    /// The longest pattern that this text ends with, counted from one.
    found: u32,
    byte: u8,
}

impl Default for Automaton {
    fn default() -> Self {
        Self {
            nodes: vec![Node::default()],
            lengths: Vec::new(),
            #[cfg(test)]
            looked_at: std::cell::Cell::default(),
        }
    }
}

impl Automaton {
    /// Adds a pattern and gives its number, unless it is known.
    pub(super) fn add(&mut self, pattern: impl Iterator<Item = u8>) -> Option<usize> {
        let mut at = START;
        for byte in pattern {
            at = self.child(at, byte).unwrap_or_else(|| self.grow(at, byte));
        }
        let node = &mut self.nodes[at as usize];
        if node.whole != NONE || at == START {
            return None;
        }
        self.lengths.push(node.depth as usize);
        node.whole = u32::try_from(self.lengths.len()).unwrap_or(NONE);
        Some(self.lengths.len() - 1)
    }

    fn grow(&mut self, parent: State, byte: u8) -> State {
        let new = State::try_from(self.nodes.len()).unwrap_or(START);
        let node = &mut self.nodes[parent as usize];
        let (sibling, depth) = (node.child, node.depth + 1);
        node.child = new;
        self.nodes.push(Node { sibling, depth, byte, ..Node::default() });
        new
    }

    /// Finds out where to go on from each text once what comes next does not fit it.
    pub(super) fn link(&mut self) {
        let mut waiting = VecDeque::from([START]);
        while let Some(parent) = waiting.pop_front() {
            let mut next = self.nodes[parent as usize].child;
            while next != NONE {
                waiting.push_back(next);
                let fallback = match parent {
                    START => START,
                    parent => self.step(self.nodes[parent as usize].fallback, self.byte(next)),
                };
                let found = self.nodes[fallback as usize].found;
                let node = &mut self.nodes[next as usize];
                node.fallback = fallback;
                node.found = if node.whole == NONE { found } else { node.whole };
                next = node.sibling;
            }
        }
    }

    /// Where one more byte leads.
    pub(super) fn step(&self, mut from: State, byte: u8) -> State {
        loop {
            match self.child(from, byte) {
                Some(child) => return child,
                None if from == START => return START,
                None => from = self.nodes[from as usize].fallback,
            }
        }
    }

    /// The same place for all that can still come: what is whole and goes no further is left.
    pub(super) fn unfinished(&self, mut at: State) -> State {
        while at != START && self.nodes[at as usize].child == NONE {
            at = self.nodes[at as usize].fallback;
        }
        at
    }

    /// How many of the last bytes a pattern begins with.
    pub(super) fn depth(&self, at: State) -> usize {
        self.nodes[at as usize].depth as usize
    }

    /// The longest pattern that ends here, and its length.
    pub(super) fn found(&self, at: State) -> Option<(usize, usize)> {
        let number = (self.nodes[at as usize].found as usize).checked_sub(1)?;
        Some((number, *self.lengths.get(number)?))
    }

    fn byte(&self, at: State) -> u8 {
        self.nodes[at as usize].byte
    }

    fn child(&self, parent: State, byte: u8) -> Option<State> {
        let mut next = self.nodes[parent as usize].child;
        while next != NONE {
            #[cfg(test)]
            self.looked_at.set(self.looked_at.get() + 1);
            let node = &self.nodes[next as usize];
            if node.byte == byte {
                return Some(next);
            }
            next = node.sibling;
        }
        None
    }

    /// How many nodes were looked at so far.
    #[cfg(test)]
    pub(super) fn looked_at(&self) -> usize {
        self.looked_at.get()
    }
}
