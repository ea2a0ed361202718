package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// The test runs the program of examples/bot/README.md. It answers messages from its socket, from before its first start
// and from between two starts.
func TestTheExampleOfABotAnswersWhoWritesToIt(t *testing.T) {
	t.Parallel()
	data, ctx := t.TempDir(), t.Context()
	n := newNode(t, nil, "--data", data, "--chats-messages-from", "everybody")
	app, err := client.New(n.URL(), client.WithServiceKey(serviceKey(t, data, "users:write,tokens:issue")))
	if err != nil {
		t.Fatal(err)
	}
	users, err := app.ProvideUsers(ctx, api.ExternalUser{ExternalID: "bot", Name: "Bot"}, api.ExternalUser{ExternalID: "4711", Name: "Ada"})
	if err != nil {
		t.Fatal(err)
	}
	tokens := func(user api.ServiceUser) api.Tokens {
		issued, err := app.IssueTokens(ctx, user.ID, api.ServiceTokens{Device: "test"})
		if err != nil {
			t.Fatal(err)
		}
		return issued
	}
	ada, err := client.New(n.URL(), client.WithTokens(tokens(users[1])))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(tokens(users[0]))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "tokens.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "bot")
	if out, err := exec.Command("go", "build", "-o", program, "../examples/bot").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	start := func() (stop func()) {
		var said bytes.Buffer
		bot := exec.CommandContext(ctx, program)
		bot.Env, bot.Stdout, bot.Stderr = []string{"STOA=" + n.URL(), "TOKENS=" + file}, &said, &said
		if err := bot.Start(); err != nil {
			t.Fatal(err)
		}
		return func() {
			_ = bot.Process.Signal(syscall.SIGTERM)
			if err := bot.Wait(); err != nil {
				t.Errorf("the bot ended with %v and said\n%s", err, said.String())
			}
		}
	}
	chat := client.ChatWith(users[0].ID)
	write := func(text string) {
		if _, err := ada.Send(ctx, chat, api.Send{ClientID: text, Content: api.Content{Kind: api.MessageText, Text: text}}); err != nil {
			t.Fatal(err)
		}
	}
	read := func() (all []string) {
		zero := int64(0)
		got, err := ada.Messages(ctx, chat, client.MessageRange{After: &zero})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range got.Messages {
			all = append(all, fmt.Sprint(m.Text, " ", m.ReplyTo))
		}
		return all
	}
	write("one")
	stop := start()
	eventually.Equal(t, "the chat", []string{"one 0", "I have read your 3 letters. 1"}, read)
	stop()
	write("and-two")
	stop = start()
	eventually.Equal(t, "the chat", []string{"one 0", "I have read your 3 letters. 1", "and-two 0", "I have read your 7 letters. 3"}, read)
	write("three")
	eventually.Equal(t, "the chat", []string{"one 0", "I have read your 3 letters. 1", "and-two 0", "I have read your 7 letters. 3",
		"three 0", "I have read your 5 letters. 5"}, read)
	stop()
}
