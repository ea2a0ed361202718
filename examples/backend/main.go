// Command backend is a minimal backend of an app that uses Stoa. It creates two accounts and sends a message from one
// user to the other with a service key. A webhook reports the message.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
)

func main() {
	ctx, told := context.Background(), make(chan string, 1)
	hooks, err := standardwebhooks.NewWebhook(os.Getenv("HOOK_SECRET"))
	check(err)
	http.HandleFunc("POST /hooks", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if hooks.Verify(body, r.Header) != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		told <- string(body)
	})
	go func() { check(http.ListenAndServe(os.Getenv("LISTEN"), nil)) }()
	stoa, err := client.New(os.Getenv("STOA"), client.WithServiceKey(os.Getenv("SERVICE_KEY")))
	check(err)
	_, err = stoa.ProvideUsers(ctx, api.ExternalUser{ExternalID: "shop", Name: "Shop"}, api.ExternalUser{ExternalID: "4711", Name: "Ada"})
	check(err)
	_, err = stoa.Post(ctx, api.ServiceMessage{From: client.External("shop"), To: client.External("4711"),
		Send: api.Send{ClientID: "order-1", Content: api.Content{Kind: api.MessageText, Text: "Your order is on its way."}}})
	check(err)
	fmt.Println(<-told)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
