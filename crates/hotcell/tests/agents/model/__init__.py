"""A model on the loopback device that follows a script, behind the wire formats that agents speak."""
