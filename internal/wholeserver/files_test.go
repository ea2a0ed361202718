package wholeserver

import (
	"bytes"
	"encoding/binary"
	"image/png"
	"io"
	"strings"
	"testing"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// voiceOf returns a recording of silence.
func voiceOf(ms int) []byte {
	b := append([]byte("RIFF\x00\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00"), 0x40, 0x1f, 0, 0, 0x80, 0x3e, 0, 0, 2, 0, 16, 0)
	b = binary.LittleEndian.AppendUint32(append(b, "data"...), uint32(ms*16))
	return append(b, make([]byte, ms*16)...)
}

func TestPicturesVoicesAndFilesAreSentToAGroup(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ctx := t.Context()
		p := deploy(t, 2)
		bob, eve, dan := p.join(0, "Bob"), p.join(1, "Eve"), p.join(0, "Dan")
		befriend(t, bob.c, eve.c)
		made, err := bob.c.CreateGroup(ctx, api.GroupNew{Name: "Rowing", Members: []string{eve.id}})
		must(t, err)
		chat := client.ChatIn(made.Group.ID)
		shot, voice, file := square(t, 700), voiceOf(2000), someBytes(5<<20+7)
		send := func(kind, name string, media api.Media, data []byte) api.Sent {
			t.Helper()
			sent, err := bob.c.SendMedia(ctx, chat, api.Content{Kind: kind, Media: &media}, name, struct{ io.ReadSeeker }{bytes.NewReader(data)})
			must(t, err)
			return sent
		}
		sentShot := send(api.MessageImage, "beach.png", api.Media{Alt: "a beach"}, shot)
		sentVoice := send(api.MessageVoice, "voice", api.Media{Waveform: []int{1, 2, 3}}, voice)
		sentFile, err := bob.c.SendFile(ctx, chat, `<script>.html`, bytes.NewReader(file))
		must(t, err)
		list, err := eve.c.Messages(ctx, chat, client.MessageRange{})
		must(t, err)
		last := list.Messages[len(list.Messages)-3:]
		if m := last[0].Media; m == nil || m.Width != 700 || m.Height != 700 || len(m.Thumbnails) != 2 || m.Type != "image/png" || m.URL != "" ||
			m.SHA256 != sum(shot) || m.Alt != "a beach" {
			t.Errorf("the picture is %+v", m)
		}
		if m := last[1].Media; m == nil || m.Duration != 2000 || m.Type != "audio/wav" || len(m.Waveform) != 3 {
			t.Errorf("the recording is %+v", m)
		}
		if m := last[2].Media; m == nil || m.Name != "_script_.html" || m.Size != int64(len(file)) || m.SHA256 != sum(file) ||
			len(m.Thumbnails) > 0 {
			t.Errorf("the file is %+v", m)
		}
		eventually.True(t, "the member to hear of messages, and of no uploads", func() bool {
			heard := strings.Join(eve.all(), " ")
			return strings.Count(heard, api.EventMessageNew) >= 3 && !strings.Contains(heard, "transfer.")
		})
		eventually.True(t, "the sender to hear of uploads", func() bool {
			return strings.Contains(strings.Join(bob.all(), " "), api.EventTransferUpdated)
		})

		var got bytes.Buffer
		if n, err := eve.c.FetchFile(ctx, chat, sentFile.Seq, 0, 0, &got); err != nil || n != int64(len(file)) ||
			!bytes.Equal(got.Bytes(), file) {
			t.Errorf("%d bytes came, %v", n, err)
		}
		got.Reset()
		if _, err := eve.c.FetchFile(ctx, chat, sentFile.Seq, 0, 4<<20+1, &got); err != nil || !bytes.Equal(got.Bytes(), file[4<<20+1:]) {
			t.Errorf("%d bytes came of the rest, %v", got.Len(), err)
		}
		looks := func(seq int64, side int, typ, disposition string) []byte {
			t.Helper()
			link, err := eve.c.MessageFileLink(ctx, chat, seq, side)
			must(t, err)
			r := p.tus(0, nil, "GET", link.URL, nil)
			b, err := io.ReadAll(r.Body)
			if err != nil || r.StatusCode != 200 {
				t.Errorf("got %d, %v", r.StatusCode, err)
			}
			for name, want := range map[string]string{
				"Content-Type": typ, "X-Content-Type-Options": "nosniff",
				"Content-Security-Policy":      "default-src 'none'; frame-ancestors 'none'; sandbox",
				"Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "private, no-store", "Accept-Ranges": "bytes",
			} {
				if got := r.Header.Get(name); got != want {
					t.Errorf("message %d, side %d: %s is %q, want %q", seq, side, name, got, want)
				}
			}
			if got, _, _ := strings.Cut(r.Header.Get("Content-Disposition"), ";"); got != disposition {
				t.Errorf("message %d, side %d: it is an %s, want %s", seq, side, got, disposition)
			}
			return b
		}
		looks(sentFile.Seq, 0, "application/octet-stream", "attachment")
		if b := looks(sentShot.Seq, 0, "application/octet-stream", "attachment"); !bytes.Equal(b, shot) {
			t.Error("another picture came out")
		}
		for _, side := range []int{320, 1280} {
			looks(sentShot.Seq, side, "image/jpeg", "inline")
		}
		if b := looks(sentVoice.Seq, 0, "audio/wav", "attachment"); !bytes.Equal(b, voice) {
			t.Error("another recording came out")
		}
		for what, tc := range map[string]struct {
			who  *talker
			seq  int64
			side int
			code string
		}{
			"a stranger":               {dan, sentShot.Seq, 0, "chat.unknown"},
			"of a message without one": {eve, 1, 0, "message.no_file"},
			"of no message":            {eve, 99, 0, "message.unknown"},
			"a thumbnail of a file":    {eve, sentFile.Seq, 320, "transfer.no_thumbnail"},
			"a side that there is not": {eve, sentShot.Seq, 64, "transfer.no_thumbnail"},
		} {
			if _, err := tc.who.c.MessageFileLink(ctx, chat, tc.seq, tc.side); client.CodeOf(err) != tc.code {
				t.Errorf("%s: got %v, want %s", what, err, tc.code)
			}
		}
		if _, err := bob.c.CancelTransfer(ctx, last[0].Media.File); client.CodeOf(err) != "transfer.kept" {
			t.Errorf("its sender removes the file of a message: %v", err)
		}
		link, err := eve.c.MessageFileLink(ctx, chat, sentShot.Seq, 320)
		must(t, err)
		must(t, bob.c.RecallMessage(ctx, chat, sentShot.Seq))
		if r := p.tus(1, nil, "GET", link.URL, nil); r.StatusCode != 404 {
			t.Errorf("a link to what was recalled: %d", r.StatusCode)
		}
		if _, err := eve.c.MessageFileLink(ctx, chat, sentShot.Seq, 0); client.CodeOf(err) != "message.recalled" {
			t.Errorf("what was recalled: %v", err)
		}
	})
}

func TestAGroupHasAPictureACardAndASearch(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ctx := t.Context()
		p := deploy(t, 2)
		bob, eve, dan := p.join(0, "Bob"), p.join(1, "Eve"), p.join(1, "Dan")
		befriend(t, bob.c, eve.c)
		made, err := bob.c.CreateGroup(ctx, api.GroupNew{Name: "Rowing", Members: []string{eve.id}})
		must(t, err)
		group := made.Group.ID
		if _, err := eve.c.SetGroupPicture(ctx, group, square(t, 600)); client.CodeOf(err) != "group.not_allowed" {
			t.Errorf("a member gives it a picture: %v", err)
		}
		if _, err := bob.c.SetGroupPicture(ctx, group, []byte("GIF89a<svg>")); client.CodeOf(err) != "picture.unreadable" {
			t.Errorf("no image: %v", err)
		}
		now, err := bob.c.SetGroupPicture(ctx, group, square(t, 600))
		if err != nil || now.Group.Picture == "" {
			t.Fatalf("got %+v, %v", now, err)
		}
		for _, size := range []int{64, 256, 512} {
			if b, err := dan.c.GroupPicture(ctx, now.Group.Picture, size); err != nil || !bytes.HasPrefix(b, []byte("\xff\xd8")) {
				t.Errorf("got %d bytes, %v", len(b), err)
			}
		}
		r := p.tus(1, nil, "GET", "/v1/group-pictures/"+now.Group.Picture+"/64", nil)
		if r.Header.Get("Cache-Control") != "public, max-age=31536000, immutable" || r.Header.Get("Content-Type") != "image/jpeg" {
			t.Errorf("got %v", r.Header)
		}
		if r := p.tus(0, nil, "GET", "/v1/group-pictures/"+now.Group.Picture+"/64", nil, "If-None-Match",
			r.Header.Get("Etag")); r.StatusCode != 304 {
			t.Errorf("known: %d", r.StatusCode)
		}
		eventually.True(t, "the chat to tell of it", func() bool {
			list, err := eve.c.Messages(ctx, client.ChatIn(group), client.MessageRange{})
			return err == nil && list.Messages[len(list.Messages)-1].System.Event == api.SystemPictured
		})
		must(t, bob.c.RemoveGroupPicture(ctx, group))
		if _, err := bob.c.GroupPicture(ctx, now.Group.Picture, 64); client.CodeOf(err) != "group.picture_unknown" {
			t.Errorf("one that was removed: %v", err)
		}

		if _, err := eve.c.GroupCard(ctx, group); client.CodeOf(err) != "card.not_drawn" {
			t.Errorf("a card that nobody drew: %v", err)
		}
		card, err := eve.c.DrawGroupCard(ctx, group)
		if err != nil || card.ExpiresIn != 48*60*60 || !strings.HasSuffix(card.URL, "/#/join/"+card.Token) {
			t.Fatalf("got %+v, %v", card, err)
		}
		if again, err := bob.c.GroupCard(ctx, group); err != nil || again.Token != card.Token {
			t.Errorf("another member's is %+v, %v", again, err)
		}
		if _, err := dan.c.GroupCard(ctx, group); client.CodeOf(err) != "group.unknown" {
			t.Errorf("a stranger: %v", err)
		}
		r = p.tus(0, eve.c, "GET", "/v1/groups/"+group+"/card.png?size=256", nil)
		if img, err := png.Decode(r.Body); err != nil || img.Bounds().Dx() != 256 {
			t.Errorf("it is drawn as %v, %v", img, err)
		}
		r = p.tus(0, eve.c, "GET", "/v1/groups/"+group+"/card.svg", nil)
		if b, err := io.ReadAll(r.Body); err != nil || r.Header.Get("Content-Type") != "image/svg+xml" || !bytes.HasPrefix(b, []byte("<svg")) {
			t.Errorf("it is drawn as %s, %v", b, err)
		}
		asking := api.JoinAsking
		if _, err := bob.c.UpdateGroup(ctx, group, api.GroupUpdate{Joins: &asking}); err != nil {
			t.Fatal(err)
		}
		asked, err := dan.c.AskByGroupCard(ctx, card.Token, "let me in")
		if err != nil || asked.Me != nil || asked.Request == nil || asked.Request.Answer != "let me in" {
			t.Fatalf("got %+v, %v", asked, err)
		}
		must(t, bob.c.AcceptGroupRequest(ctx, group, asked.Request.ID))
		found, err := dan.c.SearchGroupMembers(ctx, group, "eV", "", 0)
		if err != nil || len(found.Members) != 1 || found.Members[0].User.ID != eve.id || found.Next != "" {
			t.Errorf("found %+v, %v", found, err)
		}
	})
}
