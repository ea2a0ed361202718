package integration

import (
	"fmt"
	"testing"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/servicekeys"
)

// An app's backend imports 10,000 users into groups over HTTP. One operation is the joining of all users; their
// accounts already exist. Redis is a real one, SQL is SQLite.
func BenchmarkTenThousandUsersJoinGroups(b *testing.B) {
	for _, size := range []int{500, 5000} {
		b.Run(fmt.Sprint("groups of ", size), func(b *testing.B) {
			n := startFor(b, func(c *app.Config) { c.Redis, c.Groups.Members = "spawn", min(size+1, 5000) })
			ctx := b.Context()
			backend := n.key("import", servicekeys.UsersWrite, servicekeys.UsersRead, servicekeys.GroupsManage)
			var users []string
			for len(users) < 10_000 {
				list := make([]api.ExternalUser, 500)
				for i := range list {
					list[i] = api.ExternalUser{ExternalID: fmt.Sprint(len(users) + i), Name: "User"}
				}
				made, err := backend.ProvideUsers(ctx, list...)
				n.must(err)
				for _, u := range made {
					users = append(users, u.ID)
				}
			}
			for b.Loop() {
				for at := 0; at < len(users); at += size {
					g, err := backend.MakeGroup(ctx, api.ServiceGroup{Owner: users[(at+size)%len(users)], Name: "Imported"})
					n.must(err)
					for some := users[at : at+min(size, 4999)]; len(some) > 0; some = some[min(len(some), 1000):] {
						_, err := backend.AddMembers(ctx, g.ID, api.ServiceMembers{Members: some[:min(len(some), 1000)], Silent: true})
						n.must(err)
					}
				}
			}
		})
	}
}
