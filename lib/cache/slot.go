package cache

import (
	_ "embed"

	"github.com/stoa-dev/stoa/lib/redis"
)

// Every step from what a slot holds to what it holds next is one of these scripts; package
// slots says what that can be. Each has a pure twin in the tests, on which the model runs.
var (
	//go:embed lua/acquire.lua
	acquireLua string
	//go:embed lua/fill.lua
	fillLua string
	//go:embed lua/renew.lua
	renewLua string
	//go:embed lua/fence.lua
	fenceLua string
	//go:embed lua/finish.lua
	finishLua string
	//go:embed lua/put.lua
	putLua string

	acquireScript = redis.NewScript(acquireLua)
	fillScript    = redis.NewScript(fillLua)
	renewScript   = redis.NewScript(renewLua)
	fenceScript   = redis.NewScript(fenceLua)
	finishScript  = redis.NewScript(finishLua)
	putScript     = redis.NewScript(putLua)
)
