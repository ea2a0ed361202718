// Command bot answers all messages to it. An event of its socket only starts a check of its list of chats. Messages
// from a time without a connection are therefore answered like any other.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
)

// pause is how long the bot waits after a failure, in addition to the retries of the client.
const pause = time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	file := os.Getenv("TOKENS")
	text, err := os.ReadFile(file)
	check(err)
	var tokens api.Tokens
	check(json.Unmarshal(text, &tokens))
	stoa, err := client.New(os.Getenv("STOA"), client.WithTokens(tokens), client.OnTokens(func(t api.Tokens) { check(keep(file, t)) }))
	check(err)

	something := make(chan struct{}, 1)
	wake := func() {
		select {
		case something <- struct{}{}:
		default: // already awake
		}
	}
	// The socket reads nothing while a function of its listener runs, so no such function waits for the server.
	socket := stoa.Socket(client.SocketListener{
		Open: func(bool) { wake() }, // at the start, and after each break: some events may be lost
		Event: func(e api.Event) {
			if e.Type == api.EventMessageNew {
				wake()
			}
		},
	})
	ended := make(chan error, 1)
	go func() { ended <- socket.Run(ctx) }()
	b := bot{stoa: stoa}
	for {
		select {
		case <-something:
			if err := b.look(ctx); err != nil && ctx.Err() == nil {
				log.Print(err)
				time.AfterFunc(pause, wake)
			}
		case err := <-ended: // stopped, or refused permanently: the device was logged out
			if ctx.Err() != nil {
				return
			}
			log.Fatal(err)
		}
	}
}

// keep stores renewed tokens, because the earlier ones are no longer valid. A bot that logged in at each start would
// fill the list of its devices instead.
func keep(file string, t api.Tokens) error {
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file+".part", text, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".part", file)
}

type bot struct {
	stoa *client.Client
	sync string // the changes of its chats that it has seen
}

// look answers in each chat that has changed since the last call; the first call checks all chats. If one chat fails,
// the others are still answered, and the next call checks all of them again.
func (b *bot) look(ctx context.Context) error {
	var failed error
	sync, cursor := "", ""
	for {
		page, err := b.stoa.Chats(ctx, b.sync, cursor, 0)
		if err != nil {
			return errors.Join(failed, err)
		}
		for _, chat := range page.Chats {
			failed = errors.Join(failed, b.answer(ctx, chat))
		}
		if sync == "" {
			sync = page.Sync
		}
		if cursor = page.Next; cursor == "" {
			if failed == nil {
				b.sync = sync
			}
			return failed
		}
	}
}

// answer answers the newest message of a chat with one user, unless it was read. A bot that answers each message would
// list them with Messages, After chat.Read.
func (b *bot) answer(ctx context.Context, chat api.Chat) error {
	last := chat.Last
	if chat.Unread == 0 || chat.Peer == "" || chat.PeerGone || last == nil {
		return nil
	}
	if last.Kind == api.MessageText && last.Recalled == nil {
		_, err := b.stoa.Send(ctx, chat.Chat, api.Send{
			ClientID: "to-" + last.ID, // a retry is the same message, so that there is one answer after any failure
			Content:  api.Content{Kind: api.MessageText, Text: fmt.Sprintf("I have read your %d letters.", utf8.RuneCountInString(last.Text))},
			ReplyTo:  last.Seq,
		})
		if !refused(err) { // sending also marks the earlier messages as read
			return err
		}
	}
	return b.stoa.Mark(ctx, chat.Chat, api.MarkRequest{Read: last.Seq})
}

// refused reports a refusal that a retry cannot change: the other user blocks the bot, or the app's backend forbids the
// message.
func refused(err error) bool {
	e, ok := errors.AsType[*client.Error](err)
	return ok && e.Status < http.StatusInternalServerError && e.Status != http.StatusTooManyRequests
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
