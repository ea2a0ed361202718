package wholeserver

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/internal/testkit"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// The commands of docs/chats.md hide a message for its sender, and recall it. Each may be repeated.
func TestDeleteMessage_CommandsOfTheGuideWork(t *testing.T) {
	page, err := os.ReadFile("../../docs/chats.md")
	must(t, err)
	commands := regexp.MustCompile(`(?m)^curl -X DELETE .* "http://127\.0\.0\.1:8080(.*)"$`).FindAllStringSubmatch(string(page), -1)
	if len(commands) != 2 {
		t.Fatalf("docs/chats.md has the commands %q, want 2", commands)
	}
	bubble.Test(t, func(t *testing.T) {
		s := testkit.Start(t)
		ann, bob := s.SignUp(t, "UTC"), s.SignUp(t, "UTC")
		befriend(t, ann, bob)
		friend := bob.Tokens().User.ID
		for _, text := range []string{"first", "second"} {
			message := api.Send{ClientID: text, Content: api.Content{Kind: api.MessageText, Text: text}}
			_, err := ann.Send(t.Context(), client.ChatWith(friend), message)
			must(t, err)
		}
		for _, command := range commands {
			for range 2 {
				path := strings.ReplaceAll(command[1], "$FRIEND", friend)
				if code, _, body := s.Call(t, ann, http.MethodDelete, path, ""); code != http.StatusNoContent {
					t.Errorf("%s: %d %s", path, code, body)
				}
			}
		}
		for reader, c := range map[string]struct {
			*client.Client
			with, want string
		}{
			"the sender":     {ann, friend, "2 recalled"},
			"the other user": {bob, ann.Tokens().User.ID, "1 first, 2 recalled"},
		} {
			list, err := c.Messages(t.Context(), client.ChatWith(c.with), client.MessageRange{})
			must(t, err)
			got := make([]string, len(list.Messages))
			for i, m := range list.Messages {
				got[i] = fmt.Sprint(m.Seq, " ", m.Content.Text)
				if m.Recalled != nil {
					got[i] = fmt.Sprint(m.Seq, " recalled")
				}
			}
			slices.Sort(got)
			if text := strings.Join(got, ", "); text != c.want {
				t.Errorf("%s reads %q, want %q", reader, text, c.want)
			}
		}
	})
}
