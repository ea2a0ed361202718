package demo

import (
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/messaging"
)

// A line is a message of a demo: who says it, the visitor or the other, and how long before the demo it was.
type line struct {
	mine    bool
	ago     time.Duration
	text    string
	replyTo int64
	emoji   string // with which the other side has reacted
	alt     string // of a picture
}

// chats are what Ada has written with others of the cast, by their place in it.
var chats = []struct {
	with   int
	unread int64 // the last ones, which Ada has not read
	pinned bool
	lines  []line
}{
	{with: 1, unread: 2, lines: []line{
		{ago: 26 * time.Hour, text: "Did you check in yesterday? I nearly forgot, at five to midnight."},
		{mine: true, ago: 26*time.Hour - 2*time.Minute, text: "I did, in the morning. Eleven days in a row now!", emoji: "🎉"},
		{ago: 25 * time.Hour, text: "Thirty is not far. I will catch up with you, wait and see."},
		{mine: true, ago: 24 * time.Hour, text: "We will see about that 😄", replyTo: 3},
		{ago: 31 * time.Minute, text: "Some of us go for a walk along the canal on Saturday, at ten. There is a good bakery on the way."},
		{ago: 30 * time.Minute, text: "Will you come?"},
	}},
	{with: 12, unread: 1, pinned: true, lines: []line{
		{ago: 50 * time.Hour, text: "你的中文进步好快！"},
		{mine: true, ago: 49 * time.Hour, text: "谢谢！我每天学二十个生词。", emoji: "👍"},
		{ago: 48 * time.Hour, text: "有什么不懂的，随时问我。"},
		{mine: true, ago: 3 * time.Hour, text: "“马马虎虎”是什么意思？为什么是两匹马、两只老虎？"},
		{ago: 2 * time.Hour, text: "意思是“一般般”或者“不太认真”。传说有个画家画的动物，一半像马，一半像虎 😂", replyTo: 4},
	}},
	{with: 4, lines: []line{
		{mine: true, ago: 5 * time.Hour, text: "How was the concert?"},
		{ago: 4*time.Hour + 40*time.Minute, text: "Wonderful! They played for two hours.", emoji: "❤️"},
		{ago: 4*time.Hour + 39*time.Minute, text: "The stage, from where we stood", alt: "A stage in blue light, seen over many heads"},
		{mine: true, ago: 4 * time.Hour, text: "Next time I am coming along."},
	}},
	{with: 18, lines: []line{
		{mine: true, ago: 75 * time.Hour, text: "周末的读书会还是三点吗？"},
		{ago: 74 * time.Hour, text: "改到四点了，地点不变。", emoji: "👍"},
		{mine: true, ago: 73 * time.Hour, text: "好的，到时候见！"},
	}},
	{with: 7, lines: []line{
		{ago: 200 * time.Hour, text: "Thank you for the recipe. It worked at the second try."},
		{mine: true, ago: 199 * time.Hour, text: "The second is the one that counts."},
	}},
}

// seeds are the demo's chats as messaging takes them; id is the account of a place in the cast.
func seeds(now time.Time, id func(i int) accounts.ID) []messaging.Seed {
	out := make([]messaging.Seed, len(chats))
	for i, chat := range chats {
		n := int64(len(chat.lines))
		p := messaging.Seed{Users: [2]accounts.ID{id(0), id(chat.with)}, Read: [2]int64{n - chat.unread, n}, Pinned: [2]bool{chat.pinned, false}}
		for _, l := range chat.lines {
			m := messaging.SeedMessage{From: 1, At: now.Add(-l.ago), Content: api.Content{Kind: api.MessageText, Text: l.text}, ReplyTo: l.replyTo, Emoji: l.emoji}
			if l.mine {
				m.From = 0
			}
			if l.alt != "" {
				m.Content.Kind, m.Content.Media = api.MessageImage, &api.Media{URL: "https://pictures.example/stage.jpg", Alt: l.alt, Width: 1600, Height: 1200, Size: 412_000}
			}
			p.Messages = append(p.Messages, m)
		}
		out[i] = p
	}
	return out
}
