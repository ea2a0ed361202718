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

// object is a JSON object; json.Marshal sorts its keys.
type object = map[string]any

const eventsIntro = "The events that a server sends to users' devices over `/v1/socket`, and to other programs through Redis. " +
	"Events announce committed changes: a client that missed events loads the current state. " +
	"The version is a checksum of the rest of this document; `x-version` is the version of a Redis channel's layout. " +
	"`x-ordered-by` names the fields of an event's data by which a client ignores events older than its own state."

// EventChannel is a channel of the AsyncAPI document.
type EventChannel struct {
	Name, Address, Description string

	// Data maps each event type of the channel to a value of the type of its data.
	Data map[string]any

	// Version is the layout version of a Redis channel; 0 marks a channel of the socket.
	Version int
}

var placeholders = regexp.MustCompile(`\{(\w+)\}`)

// AsyncAPI returns the AsyncAPI 3.0 document of the events on the channels as JSON.
func AsyncAPI(title string, channels []EventChannel) ([]byte, error) {
	schemas := newSchemas()
	onSocket, inRedis := huma.SchemaFromType(schemas, reflect.TypeFor[api.Event]()),
		huma.SchemaFromType(schemas, reflect.TypeFor[events.Event]())
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
			channel["address"], channel["x-version"], channel["servers"] = "{key_prefix}:"+c.Address, c.Version,
				[]object{{"$ref": "#/servers/redis"}}
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
