//! Echoes as kernels and line editors print them.

use proptest::prelude::*;

use super::*;

fn before(line: &str, reader: Reader) -> TerminalBefore {
    let size = TerminalSize { rows: 24, cols: 40 };
    TerminalBefore { size, line: line.as_bytes().to_vec(), reader }
}

/// The text after this input, wherever its output is split.
fn answer(prompt: &str, reader: Reader, input: &str, output: &str) -> Answer {
    let text = |cuts: &[usize]| {
        let mut text = AnswerText::to_input(input.as_bytes(), &before(prompt, reader));
        let mut from = 0;
        for cut in cuts.iter().copied().chain([output.len()]) {
            text.feed(&output.as_bytes()[from..cut]);
            from = cut;
        }
        text.answer()
    };
    let whole = text(&[]);
    for cut in 0..=output.len() {
        let split = text(&[cut]);
        assert_eq!(split, whole, "split at {cut}");
    }
    whole
}

fn output(prompt: &str, input: &str, output: &str) -> String {
    let Answer { output, uncertain } = answer(prompt, Reader::Ready, input, output);
    assert!(uncertain.is_empty(), "{:?}", String::from_utf8_lossy(&uncertain));
    String::from_utf8(output).unwrap()
}

#[test]
fn an_echo_is_no_output() {
    let input = "sleep 1; echo READY\n";
    let echo = "sleep 1; echo READY\r\n\x1b[?2004l\r";
    assert_eq!(output("$ ", input, echo), "\r");
    let answered = format!("{echo}READY\r\n\x1b[?2004h$ ");
    assert_eq!(output("\x1b[?2004h$ ", input, &answered), "\rREADY\r\n$ ");
    // A prompt that is drawn again, with something to the right of it.
    let redrawn = "\r\x1b[K$ sleep 1; echo READY       12:00\r\nREADY\r\n";
    assert_eq!(output("$ ", input, redrawn), "       12:00\nREADY\r\n");
    // What a program prints of its input is output.
    assert_eq!(output("", "finished\n", "finished\r\nfinished\r\n"), "finished\r\n");
    assert_eq!(output("? ", "bob\n", "bob\r\nHello bob\r\n"), "Hello bob\r\n");
}

#[test]
fn an_echo_is_found_as_it_is_wrapped_and_redrawn() {
    let long = "echo 12345678901234567890 12345678901234567890 READY";
    let input = format!("{long}\n");
    // The terminal wraps it after 40 columns; readline writes a blank and returns.
    let (first, rest) = long.split_at(38);
    let wrapped = format!("{first}{} \r{rest}\r\nREADY\r\n", &rest[..1]);
    assert_eq!(output("$ ", &input, &wrapped), "READY\r\n");
    // Editors wrap it themselves, with a mark.
    let (first, rest) = long.split_at(37);
    let marked = format!("{first}\\\r\n{rest}\r\nREADY\r\n");
    assert_eq!(output("$ ", &input, &marked), "READY\r\n");
    // The whole line is drawn again with every key, and a preview below it.
    let typed = "'REA' + 'DY'";
    let keys: String = (1..=typed.len())
        .map(|end| format!("\r\x1b[K> {}\n'RE\x1b[A\x1b[{}G\x1b[J", &typed[..end], end + 3))
        .collect();
    let drawn = format!("{keys}\r\n'READY'\r\n> ");
    let text = output("> ", &format!("{typed}\n"), &drawn);
    assert!(text.contains("'READY'\r\n> ") && !text.contains("'DY'"), "{text:?}");
    // zsh goes back and writes over what it wrote.
    let rewritten = "e\x08ec\x08\x08echo READY\r\r\nREADY\r\n";
    assert_eq!(output("% ", "echo READY\n", rewritten), "READY\r\n");
}

#[test]
fn lines_of_input_are_found_with_output_and_prompts_between_them() {
    let input = "for n in (1, 2):\n    print('READY')\n\nprint('done')\n";
    let printed = "for n in (1, 2):\r\n...     print('READY')\r\n... \r\nREADY\r\nREADY\r\n\
                   >>> print('done')\r\ndone\r\n>>> ";
    assert_eq!(output(">>> ", input, printed), "... \r\nREADY\r\nREADY\r\ndone\r\n>>> ");
    // A line that is not echoed does not hide the next.
    let printed = "one\r\nfirst\r\n$ three READY\r\nthird\r\n";
    assert_eq!(output("$ ", "one\ntwo\nthree READY\n", printed), "first\r\nthird\r\n");
}

#[test]
fn input_that_is_not_echoed_hides_no_output() {
    assert_eq!(output("Password: ", "READY\n", "\r\nREADY or not\r\n"), "\r\nREADY or not\r\n");
    assert_eq!(output("Password: ", "ok\n", "\r\nok ok\r\n"), "\r\nok ok\r\n");
    assert_eq!(output("Sure? ", "y", "\r\nall is ready\r\n"), "\r\nall is ready\r\n");
    let lines = "one\r\ntwo\r\nthree\r\n: READY\r\n";
    assert_eq!(output("", "READY\n", lines), lines);
    assert_eq!(output("> ", "", "READY"), "READY");
    assert_eq!(output("> ", "\x1b[A\r", "READY\r\n"), "READY\r\n");
}

#[test]
fn the_beginning_of_an_echo_is_uncertain() {
    let Answer { output, uncertain } =
        answer("$ ", Reader::Ready, "echo READY; date\n", "echo REA");
    assert_eq!((output.as_slice(), uncertain.as_slice()), (&b""[..], &b"echo REA"[..]));
}

#[test]
fn what_was_printed_before_input_was_read_is_no_answer_to_it() {
    let input = "echo READY\n";
    let busy = |output: &str| String::from_utf8(answer("", Reader::Busy, input, output).output);
    // The kernel echoes it at once, the shell again when it reads it.
    let kept = "echo READY\r\nREADY of before\r\n$ echo READY\r\nREADY\r\n$ ";
    assert_eq!(busy(kept).unwrap(), "READY\r\n$ ");
    assert_eq!(busy("READY\r\n$ echo READY\r\nnow\r\n").unwrap(), "now\r\n");
    // A program that prints it at the start of a line answers.
    assert_eq!(busy("echo READY\r\necho READY\r\n").unwrap(), "echo READY\r\n");
}

proptest! {
    #[test]
    fn any_output_after_any_input_has_a_text(
        prompt in "[ -~\r\n\u{1b}]{0,20}", input in "[a-c \\\\\r\n\u{1b}é宽]{0,20}",
        output in "[a-c$ \\\\\r\n\u{1b}é宽\u{8}]{0,80}", is_busy in any::<bool>(),
    ) {
        let reader = if is_busy { Reader::Busy } else { Reader::Ready };
        let mut text = AnswerText::to_input(input.as_bytes(), &before(&prompt, reader));
        for byte in output.as_bytes() {
            text.feed(&[*byte]);
            text.answer();
        }
        text.keep_last(3);
        prop_assert!(text.answer().output.len() <= 3 + 4 * output.len());
    }
}
