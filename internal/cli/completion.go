package cli

import (
	"os"

	"github.com/alecthomas/kong"
	kongcompletion "github.com/jotaen/kong-completion"
)

// completion prints what a shell is told, and answers it when it asks.
type completion struct{ kongcompletion.Completion }

// answer tells a shell that asks what may come next, and ends the process then. Shells
// ask by COMP_LINE, as bash does.
func (completion) answer(k *kong.Kong) {
	if os.Getenv("COMP_LINE") != "" {
		kongcompletion.Register(k)
	}
}
