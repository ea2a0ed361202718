package redistest

import (
	"fmt"
	"net"
	"testing"
)

func TestAPortIsOneTestsUntilItEnds(t *testing.T) {
	taken := func(port int) bool {
		c, err := net.ListenPacket("udp", fmt.Sprint("127.0.0.1:", port)) // as FreePort asks
		if err == nil {
			c.Close()
		}
		return err != nil
	}
	var port int
	t.Run("of one", func(t *testing.T) {
		s := Server(t)
		port = s.port
		s.Kill()
		if !taken(port) {
			t.Error("another test may have the port of a server that is down")
		}
		s.Restart()
	})
	if taken(port) {
		t.Error("nobody gives it back")
	}
}
