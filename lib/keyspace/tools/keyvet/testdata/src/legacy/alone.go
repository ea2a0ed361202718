package legacy

import "fmt"

func alone(id int64) string {
	return fmt.Sprintf("app.user-%d", id) // want `use appUser`
}
