#include "ding_worker/policy/testing/specs.h"

#include "ding_worker/data/dtype.h"

namespace ding {

SpecPtr VectorObservation(int64_t width) { return *MakeSpec({Box("obs", {width})}); }

FieldSpec ActionMaskSpec(int64_t categories) {
  FieldSpec mask = Scalar("obs/action_mask", DType::kBool);
  mask.shape = {categories};
  return mask;
}

SpecPtr MaskedObservation(int64_t categories, int64_t width) {
  return *MakeSpec({ActionMaskSpec(categories), Box("obs/x", {width})});
}

SpecPtr DiscreteAction(int64_t categories) { return *MakeSpec({Discrete("action", categories)}); }

SpecPtr BoxAction() { return *MakeSpec({Box("action", {2}, {-2, -1}, {2, 3})}); }

}  // namespace ding
