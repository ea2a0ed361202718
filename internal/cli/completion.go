package cli

import (
	"os"

	"github.com/alecthomas/kong"
	kongcompletion "github.com/jotaen/kong-completion"
)

// completion prints the setup for a shell, and returns completions to the shell.
type completion struct{ kongcompletion.Completion }

// answer returns completions to a shell that requests them, and then ends the process. Shells request completions
// through COMP_LINE, as bash does.
func (completion) answer(k *kong.Kong) {
	if os.Getenv("COMP_LINE") != "" {
		kongcompletion.Register(k)
	}
}
