package redistest

import "testing"

// TCP may divide a message anywhere, also within its lengths.
func TestWire_DividedMessagesAreLost(t *testing.T) {
	const lost = "*3\r\n$7\r\nmessage\r\n$4\r\nbell\r\n$5\r\n*2\r\n$\r\n>2\r\n$10\r\ninvalidate\r\n*1\r\n$3\r\nkey\r\n"
	const text = lost + "*2\r\n$-1\r\n:1\r\n"
	for at := 1; at < len(text); at++ {
		w := newWire()
		node, server, err := w.connect()
		if err != nil {
			t.Fatal(err)
		}
		w.LoseMessages()
		for _, part := range []string{text[:at], text[at:]} {
			if _, err := server.Write([]byte(part)); err != nil {
				t.Fatal(err)
			}
		}
		_ = server.Close()
		got := ""
		for buf := make([]byte, len(text)); ; {
			n, err := node.Read(buf)
			if got += string(buf[:n]); err != nil {
				break
			}
		}
		if want := text[len(lost):]; got != want || w.Lost() != 2 {
			t.Errorf("divided after %d bytes: got %q and %d lost messages, want %q and 2", at, got, w.Lost(), want)
		}
	}
}
