package accounts

import (
	"fmt"
	"os"
	"regexp"
	"testing"
	"time"
)

func rss() string {
	b, _ := os.ReadFile("/proc/self/status")
	return regexp.MustCompile(`VmRSS:\s+(\d+)`).FindString(string(b))
}

func TestZZRSS(t *testing.T) {
	*argon2 = dear
	w := onSQLite(t, Settings{})
	fmt.Println("start", rss())
	w.join("ann@example.org", "")
	fmt.Println("registered without password", rss())
	w.join("bob@example.org", "correct horse")
	fmt.Println("registered", rss())
	w.enter("bob@example.org", "correct horse")
	fmt.Println("login", rss())
	time.Sleep(3 * time.Second)
	fmt.Println("3 s later", rss())
	b := time.Now()
	w.hasher.tidy()
	fmt.Println("tidied in", time.Since(b), rss())
	for range 20 {
		w.enter("bob@example.org", "correct horse")
	}
	fmt.Println("20 logins", rss())
	b = time.Now()
	w.hasher.tidy()
	fmt.Println("tidied in", time.Since(b), rss())
}
