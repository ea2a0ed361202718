package legacy

import (
	"fmt"
	"time"
)

type name string

// word has another text than it is made of.
type word string

func (word) String() string { return "word" }

const (
	page  int  = 3
	kindA name = "a"
)

func keys(id int64, n int, s string, of name, at time.Time, day time.Weekday, w word, hash uint64) []string {
	return []string{
		fmt.Sprintf("app.user-%d", id),           // want `"app.user-%d" puts a key of app.user-{user} together; take it from appUser`
		fmt.Sprintf("app.user-%v", n+1),          // want `take it from appUser`
		fmt.Sprintf("pair:{%d}:%s", id, of),      // want `take it from pair`
		fmt.Sprintf("mail:%s", s),                // want `take it from mail`
		fmt.Sprintf("id_%d", 7),                  // want `take it from ids`
		fmt.Sprintf("pair:{%d}:%s", page, kindA), // want `take it from pair`
		fmt.Sprintf("id_%d", hash),               // want `take it from ids`
		fmt.Sprintf("id_%s", s),                  // want `take it from ids`
		fmt.Sprintf("id_%s", at),                 // want `take it from ids`
		fmt.Sprintf("id_%d", id, s),              // want `take it from ids`
		fmt.Sprintf("id_%05d", n),                // want `take it from ids`
		fmt.Sprintf("id_%x", n),                  // want `take it from ids`
		fmt.Sprintf("id_%v", day),                // want `take it from ids`
		fmt.Sprintf("pair:{%d}:%q", id, s),       // want `take it from pair`
		fmt.Sprintf("pair:{%d}:%s", day, w),      // want `take it from pair`
		fmt.Sprintf("id_%d", day),                // want `take it from ids`
		fmt.Sprintf("id_%d", id),                 //keyvet:ok a column
		fmt.Sprintf("id_%d and more", id),
		fmt.Sprint(at),
	}
}
