// Package openapi writes an OpenAPI document without repetition.
//
// In a compact document, parameters and successful responses that several operations have are in components. So are the
// refusals that many operations share: an operation refers to one such response as its "default". Its other
// refusals refer to the response of their status, with a list of codes as their description. The text of each code is
// written once, in components.x-codes. The header X-Request-ID, which every response has, is only in those of shared refusals.
package openapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	parameterRef = "#/components/parameters/"
	responseRef  = "#/components/responses/"
	headerRef    = "#/components/headers/"
	problemRef   = "#/components/schemas/Problem"
	problemMedia = "application/problem+json"
	everyHeader  = "X-Request-ID"
	// sharedPart is a divisor: a refusal is shared if at least one operation in sharedPart has it.
	sharedPart = 4
)

type object = map[string]any

// refusalLine matches one code and its text in the description of a refusal.
var refusalLine = regexp.MustCompile("^`([^`]+)`: (.+)$")

// Compact returns a document without repetition. [Expand] reverts it. Each refusal of the document must have a
// description with one line per code, "`CODE`: TEXT", and an empty line between them.
func Compact(document []byte) ([]byte, error) {
	doc, err := decode(document)
	if err != nil {
		return nil, err
	}
	components := doc["components"].(object)
	parameters, responses, texts := object{}, object{}, object{}
	operations := operationsOf(doc)
	for _, op := range operations {
		op.omitCommon(doc)
	}
	share(parameterSlots(operations), parameterRef, parameters)
	share(successSlots(operations), responseRef, responses)
	common := commonRefusals(operations)
	defaults := map[string]string{} // names by content
	for _, op := range operations {
		shareRefusals(op.responses(), common, responses, defaults, texts)
	}
	removeUnused(operations, responses)
	components["parameters"], components["responses"], components["x-codes"] = parameters, responses, texts
	return json.Marshal(doc)
}

// Expand returns the document of an API with every parameter and refusal written out in each operation.
func Expand(document []byte) ([]byte, error) {
	doc, err := decode(document)
	if err != nil {
		return nil, err
	}
	components := doc["components"].(object)
	parameters, responses, texts := components["parameters"].(object), components["responses"].(object), components["x-codes"].(object)
	for _, name := range []string{"parameters", "responses", "x-codes"} {
		delete(components, name)
	}
	for _, op := range operationsOf(doc) {
		list, _ := op.fields["parameters"].([]any)
		for i, p := range list {
			if ref, ok := p.(object)["$ref"].(string); ok {
				list[i] = parameters[strings.TrimPrefix(ref, parameterRef)]
			}
		}
		all := op.responses()
		codes := map[string][]string{} // by status
		for status, r := range all {
			ref, ok := r.(object)["$ref"].(string)
			if !ok {
				continue
			}
			if status < "400" {
				all[status] = responses[strings.TrimPrefix(ref, responseRef)]
				continue
			}
			delete(all, status)
			if status != "default" {
				codes[status] = append(codes[status], strings.Split(r.(object)["description"].(string), ", ")...)
				continue
			}
			shared := responses[strings.TrimPrefix(ref, responseRef)].(object)
			for line := range strings.SplitSeq(shared["description"].(string), "\n\n") {
				status, list, _ := strings.Cut(line, ": ")
				codes[status] = append(codes[status], strings.Split(list, ", ")...)
			}
		}
		op.restoreCommon(doc)
		for status, list := range codes {
			shared, ok := responses[status].(object)
			if !ok {
				shared = plainRefusal()
			}
			all[status] = expanded(status, list, shared, texts)
		}
	}
	delete(doc, "security")
	return json.Marshal(doc)
}

// expanded returns the refusals of a status with the given codes.
func expanded(status string, codes []string, shared, texts object) object {
	slices.Sort(codes)
	lines := make([]string, len(codes))
	for i, code := range codes {
		lines[i] = fmt.Sprintf("`%s`: %s", code, texts[code])
	}
	slices.Sort(lines)
	headers := object{everyHeader: object{"$ref": headerRef + everyHeader}}
	maps.Copy(headers, shared["headers"].(object))
	return object{"description": strings.Join(lines, "\n\n"), "headers": headers, "content": shared["content"], "x-codes": codes}
}

func decode(document []byte) (doc object, err error) {
	d := json.NewDecoder(bytes.NewReader(document))
	d.UseNumber()
	err = d.Decode(&doc)
	return doc, err
}

// described is an operation of a document.
type described struct{ fields object }

// omitCommon removes the security that most operations have, which becomes that of the document, and the header of every
// response. restoreCommon reverts it.
func (o described) omitCommon(doc object) {
	list := o.fields["security"].([]any)
	if doc["security"] == nil && len(list) > 0 {
		doc["security"] = list
	}
	if reflect.DeepEqual(list, doc["security"]) {
		delete(o.fields, "security")
	}
	for status, r := range o.responses() {
		if headers := r.(object)["headers"].(object); status < "400" {
			delete(headers, everyHeader)
		}
	}
}

func (o described) restoreCommon(doc object) {
	if o.fields["security"] == nil {
		o.fields["security"] = doc["security"]
	}
	for status, r := range o.responses() {
		if status < "400" {
			r.(object)["headers"].(object)[everyHeader] = object{"$ref": headerRef + everyHeader}
		}
	}
}

func (o described) responses() object { return o.fields["responses"].(object) }

// operationsOf returns all operations in the order of their paths and methods.
func operationsOf(doc object) (all []described) {
	paths, _ := doc["paths"].(object) // a node may have no operation
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		methods := paths[path].(object)
		for _, method := range slices.Sorted(maps.Keys(methods)) {
			all = append(all, described{methods[method].(object)})
		}
	}
	return all
}

// slot is a place in a document whose object may become a reference.
type slot struct {
	get  func() object
	set  func(object)
	name func(object) string // of the shared object
}

// share moves each object that is in several slots to shared, and sets references with that prefix.
func share(slots []slot, prefix string, shared object) {
	uses, names := map[string]int{}, map[string]string{}
	for _, s := range slots {
		uses[mustEncode(s.get())]++
	}
	for _, s := range slots {
		o := s.get()
		content := mustEncode(o)
		if uses[content] < 2 {
			continue
		}
		if names[content] == "" {
			names[content] = freeName(shared, s.name(o))
			shared[names[content]] = o
		}
		s.set(object{"$ref": prefix + names[content]})
	}
}

// parameterSlots returns the parameters of all operations.
func parameterSlots(operations []described) (all []slot) {
	for _, op := range operations {
		list, _ := op.fields["parameters"].([]any)
		for i := range list {
			all = append(all, slot{
				get:  func() object { return list[i].(object) },
				set:  func(o object) { list[i] = o },
				name: func(o object) string { return o["name"].(string) },
			})
		}
	}
	return all
}

// successSlots returns the responses of all operations that are not refusals.
func successSlots(operations []described) (all []slot) {
	for _, op := range operations {
		responses := op.responses()
		for _, status := range slices.Sorted(maps.Keys(responses)) {
			if status >= "400" {
				continue
			}
			all = append(all, slot{
				get:  func() object { return responses[status].(object) },
				set:  func(o object) { responses[status] = o },
				name: func(o object) string { return successName(status, o) },
			})
		}
	}
	return all
}

// successName returns the name of the schema of a response, or else that of its status.
func successName(status string, response object) string {
	content, _ := response["content"].(object)
	for _, media := range content { // there is only one
		schema, _ := media.(object)["schema"].(object)
		if ref, ok := schema["$ref"].(string); ok {
			return ref[strings.LastIndexByte(ref, '/')+1:]
		}
	}
	return strings.ReplaceAll(statusText(status), " ", "")
}

// freeName returns name, or the first of name2, name3 and so on that is not in use.
func freeName(used object, name string) string {
	for free, n := name, 2; ; n++ {
		if used[free] == nil {
			return free
		}
		free = name + strconv.Itoa(n)
	}
}

// refused is a code of a status, with its text.
type refused struct{ status, code, text string }

// refusalsOf returns the refusals of an operation.
func refusalsOf(responses object) (all []refused) {
	for _, status := range slices.Sorted(maps.Keys(responses)) {
		if status < "400" {
			continue
		}
		for line := range strings.SplitSeq(responses[status].(object)["description"].(string), "\n\n") {
			m := refusalLine.FindStringSubmatch(line)
			all = append(all, refused{status, m[1], m[2]})
		}
	}
	return all
}

// commonRefusals returns the refusals that many operations have.
func commonRefusals(operations []described) map[refused]bool {
	uses, common := map[refused]int{}, map[refused]bool{}
	for _, op := range operations {
		for _, r := range refusalsOf(op.responses()) {
			uses[r]++
		}
	}
	for r, n := range uses {
		common[r] = n*sharedPart >= len(operations)
	}
	return common
}

// shareRefusals replaces the refusals of an operation by references to shared responses. A refusal whose code has another
// text in an earlier operation stays.
func shareRefusals(responses object, common map[refused]bool, shared object, defaults map[string]string, texts object) {
	byDefault, own := map[string][]string{}, map[string][]string{}
	stays := map[string]bool{}
	all := refusalsOf(responses)
	for _, r := range all {
		if text, found := texts[r.code]; found && text != r.text {
			stays[r.status] = true
		}
	}
	for _, r := range all {
		if stays[r.status] {
			continue
		}
		texts[r.code] = r.text
		to := own
		if common[r] {
			to = byDefault
		}
		to[r.status] = append(to[r.status], r.code)
	}
	headers := object{} // of the shared refusals
	for status := range byDefault {
		maps.Copy(headers, responses[status].(object)["headers"].(object))
	}
	for status := range responses {
		if status < "400" || stays[status] {
			continue
		}
		if shared[status] == nil {
			first := maps.Clone(responses[status].(object))
			delete(first, "x-codes")
			first["description"] = statusText(status)
			first["headers"] = maps.Clone(first["headers"].(object))
			delete(first["headers"].(object), everyHeader)
			shared[status] = first
		}
		delete(responses, status)
	}
	for status, codes := range own {
		slices.Sort(codes)
		responses[status] = object{"$ref": responseRef + status, "description": strings.Join(codes, ", ")}
	}
	if len(byDefault) == 0 {
		return
	}
	content := mustEncode(byDefault)
	if defaults[content] == "" {
		defaults[content] = freeName(shared, "Common")
		shared[defaults[content]] = object{
			"description": defaultText(byDefault),
			"headers":     headers,
			"content":     plainRefusal()["content"],
		}
	}
	responses["default"] = object{"$ref": responseRef + defaults[content]}
}

// plainRefusal returns the headers and the content of most refusals.
func plainRefusal() object {
	return object{
		"headers": object{},
		"content": object{problemMedia: object{"schema": object{"$ref": problemRef}}},
	}
}

// removeUnused removes the shared responses of statuses that no operation lists, unless they are special: Expand restores
// plain ones.
func removeUnused(operations []described, shared object) {
	used := map[string]bool{}
	for _, op := range operations {
		for status, r := range op.responses() {
			used[status] = used[status] || r.(object)["$ref"] != nil
		}
	}
	for status, r := range shared {
		o := maps.Clone(r.(object))
		isOfStatus := o["description"] == statusText(status)
		delete(o, "description")
		if isOfStatus && !used[status] && reflect.DeepEqual(o, plainRefusal()) {
			delete(shared, status)
		}
	}
}

// defaultText lists codes by status.
func defaultText(codes map[string][]string) string {
	var lines []string
	for _, status := range slices.Sorted(maps.Keys(codes)) {
		slices.Sort(codes[status])
		lines = append(lines, status+": "+strings.Join(codes[status], ", "))
	}
	return strings.Join(lines, "\n\n")
}

func statusText(status string) string {
	n, _ := strconv.Atoi(status)
	return cmp.Or(http.StatusText(n), status)
}

// mustEncode returns v as JSON. Maps are sorted by their keys.
func mustEncode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // a decoded document can be encoded
	}
	return string(b)
}
