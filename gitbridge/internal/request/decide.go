package request

import (
	"fmt"
	"slices"
	"strings"

	"gitbind.dev/gitbridge/contract"
)

// Decide takes the next step.
func Decide(f Facts) Decision {
	if f.File == nil {
		return f.gone()
	}
	d := f.asked()
	d.Permitted = f.permitted()
	return d
}

// asked decides while the request is on main.
func (f Facts) asked() Decision {
	switch {
	case f.File.Problem != nil:
		return answer(f.refused(contract.Invalid, f.File.Problem))
	case isReserved(f.Binding):
		return answer(f.refused(contract.Invalid, &contract.Problem{File: f.Path, Reason: fmt.Sprintf("the group %s is reserved: nobody may offer it", contract.BindingGroup(f.Binding))}))
	case f.Export != nil && f.Export.Terminating:
		return answer(f.Failed("the API is being unbound: it is bound again when that is done"))
	case f.Export != nil:
		return answer(f.bound())
	}
	offer, refusal := f.choose()
	if refusal != nil {
		return answer(refusal)
	}
	return Decision{Effect: Grant, Template: offer.Name, Answer: f.applied(offer.Name)}
}

// bound answers a request for an API that the cluster has.
func (f Facts) bound() *contract.Status {
	want, has := f.File.Request.Template, f.Export.Template
	if want != "" && want != has {
		// Whether there is such an offer is not told to who may not bind it.
		if offer := f.offer(want); offer == nil || !offer.Permitted {
			return f.refused(contract.Denied, f.at(f.lacks(want)))
		}
		return f.refused(contract.Denied, f.at(fmt.Sprintf("the API is bound by the offer %s already: unbind it first, or name that one", has)))
	}
	if f.isPermitted(has) {
		return f.applied(has)
	}
	s := f.status(contract.Held)
	s.Reason = contract.NotPermitted
	s.Message = "what was ordered stays as it is, and new claims wait: " + f.lacks(has)
	return s
}

// choose says which offer is meant, or why none can be taken.
func (f Facts) choose() (*Offer, *contract.Status) {
	want := f.File.Request.Template
	var may []Offer
	for _, o := range f.Offers {
		if o.Permitted && (o.Name == want || want == "" && o.Binding == f.Binding) {
			may = append(may, o)
		}
	}
	open := slices.DeleteFunc(slices.Clone(may), func(o Offer) bool { return !o.Offered })
	switch {
	case len(may) == 0:
		return nil, f.refused(contract.Denied, f.at(f.lacks(want)))
	case want != "" && may[0].Binding != f.Binding:
		return nil, f.refused(contract.Invalid, f.at(fmt.Sprintf("the offer %s is of %s, and this is a request for %s", want, may[0].Binding, f.Binding)))
	case len(open) == 0:
		return nil, f.refused(contract.Denied, f.at(fmt.Sprintf("the offer %s cannot be bound just now: a platform operator finds the reason in its conditions", may[0].Name)))
	case len(open) > 1:
		var names []string
		for _, o := range open {
			names = append(names, o.Name)
		}
		slices.Sort(names)
		return nil, f.refused(contract.Invalid, f.at("there are several offers of this API: name one in spec.template ("+strings.Join(names, ", ")+")"))
	}
	return &open[0], nil
}

// lacks says that there is no such offer for this cluster, what it may bind in its place, and
// who may change that. It is the same for an offer that does not exist and for one that the
// cluster may not bind.
func (f Facts) lacks(template string) string {
	what, right := "of "+f.Binding, ""
	if template != "" {
		what, right = fmt.Sprintf("%q", template), "/"+template
	}
	var others []string
	for _, o := range f.Offers {
		if o.Permitted && o.Offered && o.Binding == f.Binding {
			others = append(others, o.Name)
		}
	}
	instead := ""
	if len(others) > 0 {
		slices.Sort(others)
		instead = "; of this API it may bind: " + strings.Join(others, ", ")
	}
	return fmt.Sprintf("there is no offer %s that this cluster may bind%s. Its owner lists the offers with kubectl gitbind catalog, and binds one with kubectl gitbind bind; "+
		"or a platform operator gives its ServiceAccount %s the verb bind on apiserviceexporttemplates%s", what, instead, f.ServiceAccount, right)
}

// gone decides while main has no request. Nobody wishes to unbind what was bound
// without one, or what this one was never granted.
func (f Facts) gone() Decision {
	switch p := f.Present; {
	case p == nil:
		return answer(nil)
	case p.Answers.Blob == "" && p.Reason == contract.NotRemoved, p.Answers.Blob != "" && !f.Removed:
		return answer(f.Unproven())
	case !f.granted():
		return answer(nil)
	case f.Claim != "" && policy(p) != contract.Orphan:
		s := f.status(contract.Held)
		s.Reason = contract.ClaimsExist
		s.Message = fmt.Sprintf("the API stays bound, because there are claims of it, such as %s. Delete them; or put this file back with deletionPolicy: Orphan, "+
			"wait until that is answered, and remove it again: then their services stay", f.Claim)
		return answer(s)
	default:
		return Decision{Effect: Withdraw}
	}
}

// Unproven is the answer for a request that main lacks, where it is not known
// that a commit after one with it removed it.
func (f Facts) Unproven() *contract.Status {
	s := f.status(contract.Held)
	s.Reason = contract.NotRemoved
	s.Message = "the request is not on main, but no commit that the bridge followed removed it: the API stays bound. " +
		"Put the file back, and then remove it if the API shall be unbound"
	return s
}

// permitted says whether the cluster may bind what it has, or gets.
func (f Facts) permitted() *bool {
	if f.File.Problem != nil || f.Export == nil {
		return nil
	}
	yes := f.isPermitted(f.Export.Template)
	return &yes
}

func (f Facts) isPermitted(template string) bool {
	offer := f.offer(template)
	return offer != nil && offer.Permitted
}

func (f Facts) offer(name string) *Offer {
	i := slices.IndexFunc(f.Offers, func(o Offer) bool { return o.Name == name })
	if i < 0 {
		return nil
	}
	return &f.Offers[i]
}

func isReserved(binding string) bool {
	group := contract.BindingGroup(binding)
	return group == "k8s.io" || strings.HasSuffix(group, ".k8s.io") || group == "gitbind.dev"
}
