package legacy

import (
	"fmt"
	"time"
)

type name string

func keys(id int64, n int, s string, of name, at time.Time) []string {
	return []string{
		fmt.Sprintf("app.user-%d", id),      // want `"app.user-%d" puts a key of app.user-{user} together; take it from appUser`
		fmt.Sprintf("app.user-%v", n+1),     // want `take it from appUser`
		fmt.Sprintf("pair:{%d}:%s", id, of), // want `take it from pair`
		fmt.Sprintf("mail:%s", s),           // want `take it from mail`
		fmt.Sprintf("id_%d", 7),             // want `take it from ids`
		fmt.Sprintf("id_%s", s),             // want `take it from ids`
		fmt.Sprintf("id_%s", at),            // want `take it from ids`
		fmt.Sprintf("id_%d", id, s),         // want `take it from ids`
		fmt.Sprintf("id_%d", id),            //keyvet:ok a column
		fmt.Sprintf("id_%d and more", id),
		fmt.Sprint(at),
	}
}
