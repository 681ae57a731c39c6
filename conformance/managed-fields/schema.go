package main

import "sigs.k8s.io/structured-merge-diff/v6/schema"

// A schema as plain maps, in upstream's own form but with fields by name, since upstream has them in random order.
func atomOf(atom *schema.Atom) map[string]any {
	out := map[string]any{}
	if atom.Scalar != nil {
		out["scalar"] = string(*atom.Scalar)
	}
	if atom.List != nil {
		list := map[string]any{"elementType": refOf(&atom.List.ElementType)}
		list["elementRelationship"] = string(atom.List.ElementRelationship)
		if len(atom.List.Keys) > 0 {
			list["keys"] = atom.List.Keys
		}
		out["list"] = list
	}
	if atom.Map != nil {
		fields := map[string]any{}
		for _, field := range atom.Map.Fields {
			one := map[string]any{"type": refOf(&field.Type)}
			if field.Default != nil {
				one["default"] = field.Default
			}
			fields[field.Name] = one
		}
		relationship := atom.Map.ElementRelationship
		if relationship == "" {
			relationship = schema.Separable
		}
		out["map"] = map[string]any{
			"fields": fields, "elementType": refOf(&atom.Map.ElementType), "elementRelationship": string(relationship)}
	}
	return out
}

func refOf(ref *schema.TypeRef) map[string]any {
	if ref.NamedType == nil {
		return atomOf(&ref.Inlined)
	}
	out := map[string]any{"namedType": *ref.NamedType}
	if ref.ElementRelationship != nil {
		out["elementRelationship"] = string(*ref.ElementRelationship)
	}
	return out
}
