package web

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"reflect"
	"regexp"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/realtime/events"
)

// object is one of JSON, whose keys come in their order.
type object = map[string]any

const eventsIntro = "What a server tells the devices of users over `/v1/socket`, and programs beside it in Redis. " +
	"Events are hints about what was committed: where some were missed, ask for the present state. " +
	"The version is a checksum of all else here; `x-version` is that of the layout of a channel in Redis. " +
	"`x-ordered-by` names the fields of an event's data by which a client ignores what is older than it has."

// EventChannel is a channel of the AsyncAPI document.
type EventChannel struct {
	Name, Address, Description string

	// Data has for each type of event on the channel a value of its data's type.
	Data map[string]any

	// Version is that of a channel of Redis; 0: it is a channel of the socket.
	Version int
}

var placeholders = regexp.MustCompile(`\{(\w+)\}`)

// AsyncAPI returns the AsyncAPI 3.0 document of the events on channels as JSON.
func AsyncAPI(title string, channels []EventChannel) ([]byte, error) {
	schemas := newSchemas()
	onSocket, inRedis := huma.SchemaFromType(schemas, reflect.TypeFor[api.Event]()), huma.SchemaFromType(schemas, reflect.TypeFor[events.Event]())
	message := func(event *huma.Schema, name string, data any) object {
		properties := object{}
		for field, schema := range event.Properties {
			properties[field] = schema
		}
		properties["type"] = object{"type": "string", "const": name}
		properties["data"] = schemas.Schema(reflect.TypeOf(data), true, "")
		described := object{
			"name":    name,
			"payload": object{"type": "object", "required": event.Required, "properties": properties},
		}
		if fields := api.EventVersions[name]; fields != nil {
			described["x-ordered-by"] = fields
		}
		return described
	}
	described, operations, messages := object{}, object{}, object{}
	for _, c := range channels {
		listed, parameters := object{}, object{}
		channel := object{"address": c.Address, "description": c.Description, "parameters": parameters, "messages": listed,
			"servers": []object{{"$ref": "#/servers/socket"}}}
		for _, found := range placeholders.FindAllStringSubmatch(c.Address, -1) {
			parameters[found[1]] = object{"description": "an id"}
		}
		for name, data := range c.Data {
			if c.Version == 0 {
				messages[name], listed[name] = message(onSocket, name, data), object{"$ref": "#/components/messages/" + name}
			} else {
				listed[name] = message(inRedis, name, data)
			}
		}
		if c.Version != 0 {
			channel["address"], channel["x-version"], channel["servers"] = "{key_prefix}:"+c.Address, c.Version, []object{{"$ref": "#/servers/redis"}}
			parameters["key_prefix"] = object{"description": "the setting", "default": "stoa"}
		}
		described[c.Name] = channel
		operations["tell_"+c.Name] = object{"action": "send", "channel": object{"$ref": "#/channels/" + c.Name}}
	}
	document := object{
		"asyncapi":           "3.0.0",
		"defaultContentType": onlyJSON[0],
		"servers": object{
			"socket": object{"host": "localhost:8080", "pathname": "/v1/socket", "protocol": "ws"},
			"redis":  object{"host": "localhost:6379", "protocol": "redis", "description": "SUBSCRIBE, or SSUBSCRIBE on a cluster"},
		},
		"channels":   described,
		"operations": operations,
		"components": object{"messages": messages, "schemas": schemas.Map()},
	}
	text, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	document["info"] = object{"title": title, "version": fmt.Sprintf("%08x", crc32.ChecksumIEEE(text)), "description": eventsIntro}
	return json.Marshal(document)
}
