package embedded

import (
	"bufio"
	"io"
	"sync"
	"testing"
	"time"
)

// The clock of the embedded server needs its lock, and a script holds that lock while its commands arrive.
func TestEmbedded_ScriptsAndClockDoNotDeadlock(t *testing.T) {
	e, err := start()
	if err != nil {
		t.Fatal(err)
	}
	const script = "*4\r\n$4\r\nEVAL\r\n$64\r\nfor i = 1, 3000 do redis.call('SET', KEYS[1], i) end return 'OK'\r\n$1\r\n1\r\n$1\r\nk\r\n"
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				c, err := e.Dial()
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				replies := bufio.NewReader(c)
				for end := time.Now().Add(10 * tick); time.Now().Before(end); {
					if _, err := io.WriteString(c, script); err != nil {
						t.Error(err)
						return
					}
					if reply, err := replies.ReadString('\n'); err != nil || reply != "$2\r\n" {
						t.Errorf("got %q, %v", reply, err)
						return
					}
					if _, err := replies.ReadString('\n'); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
	}()
	select {
	case <-ended:
		e.Close()
	case <-time.After(time.Minute):
		t.Fatal("scripts hang")
	}
}
