package web

import (
	"encoding/json"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stoa-dev/stoa/api"
)

// object is one of JSON, whose keys come in their order.
type object = map[string]any

const eventsIntro = "What a server tells the devices of a user. Every connection to `/v1/socket` gets the channel of its user without asking. " +
	"Events are hints about what was committed: where some were missed, ask for the present state."

// AsyncAPI returns the AsyncAPI 3.0 document of events as JSON. data has for each type of event a
// value of its data's type.
func AsyncAPI(title, version string, data map[string]any) ([]byte, error) {
	schemas := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	event := huma.SchemaFromType(schemas, reflect.TypeFor[api.Event]())
	listed, messages := object{}, object{}
	for name, value := range data {
		properties := object{}
		for field, schema := range event.Properties {
			properties[field] = schema
		}
		properties["type"] = object{"type": "string", "const": name}
		properties["data"] = schemas.Schema(reflect.TypeOf(value), true, "")
		messages[name] = object{
			"name":    name,
			"payload": object{"type": "object", "required": event.Required, "properties": properties},
		}
		listed[name] = object{"$ref": "#/components/messages/" + name}
	}
	return json.Marshal(object{
		"asyncapi":           "3.0.0",
		"info":               object{"title": title, "version": version, "description": eventsIntro},
		"defaultContentType": onlyJSON[0],
		"channels": object{"user": object{
			"address":     "{user}",
			"description": "The personal channel of a user.",
			"parameters":  object{"user": object{"description": "the user's id"}},
			"messages":    listed,
		}},
		"operations": object{"tell": object{
			"action":  "send",
			"summary": "Tell all devices of a user what happened",
			"channel": object{"$ref": "#/channels/user"},
		}},
		"components": object{"messages": messages, "schemas": schemas.Map()},
	})
}
