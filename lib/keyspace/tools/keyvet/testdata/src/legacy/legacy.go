package legacy

import (
	"fmt"
	"time"
)

type name string

// word has a String method that does not return its value.
type word string

func (word) String() string { return "word" }

const (
	page  int  = 3
	kindA name = "a"
)

func keys(id int64, n int, s string, of name, at time.Time, day time.Weekday, w word, hash uint64) []string {
	return []string{
		fmt.Sprintf("app.user-%d", id),           // want `"app.user-%d" builds a key of app.user-{user}; use appUser`
		fmt.Sprintf("app.user-%v", n+1),          // want `use appUser`
		fmt.Sprintf("pair:{%d}:%s", id, of),      // want `use pair`
		fmt.Sprintf("mail:%s", s),                // want `use mail`
		fmt.Sprintf("id_%d", 7),                  // want `use ids`
		fmt.Sprintf("pair:{%d}:%s", page, kindA), // want `use pair`
		fmt.Sprintf("id_%d", hash),               // want `use ids`
		fmt.Sprintf("id_%s", s),                  // want `use ids`
		fmt.Sprintf("id_%s", at),                 // want `use ids`
		fmt.Sprintf("id_%d", id, s),              // want `use ids`
		fmt.Sprintf("id_%05d", n),                // want `use ids`
		fmt.Sprintf("id_%x", n),                  // want `use ids`
		fmt.Sprintf("id_%v", day),                // want `use ids`
		fmt.Sprintf("pair:{%d}:%q", id, s),       // want `use pair`
		fmt.Sprintf("pair:{%d}:%s", day, w),      // want `use pair`
		fmt.Sprintf("id_%d", day),                // want `use ids`
		fmt.Sprintf("id_%d", id),                 //keyvet:ok a column
		fmt.Sprintf("id_%d and more", id),
		fmt.Sprint(at),
	}
}
