package bus

import "testing"

// Any client that can write to Redis may send messages over the channel.
func FuzzDecodeMessage(f *testing.F) {
	for _, seed := range []string{"", " ", "- ", "0-0 1-2 id node topic name 3 data and more", "- id node topic name 3 ",
		"1-1 2 id node topic name 3 x",
		"1-1 18446744073709551615-18446744073709551615 a b c d -9223372036854775808 ", "x y z"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, payload string) {
		m, err := decodeMessage(payload)
		if err != nil {
			return
		}
		again := m.event.encode()
		if m.id != "" {
			again = m.prev + " " + m.id + " " + again
		} else {
			again = passing + again
		}
		if n, err := decodeMessage(again); err != nil || n != m {
			t.Errorf("%q: got %+v, and of its own text %+v, %v", payload, m, n, err)
		}
	})
}
