package cache

import (
	_ "embed"

	"github.com/stoa-dev/stoa/lib/redis"
)

// Every transition of a slot is one of these scripts; package slots describes the possible contents. Each script has a
// pure Go twin in the tests, which the model uses.
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
