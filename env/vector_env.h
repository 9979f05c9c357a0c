// An env that can step all envs of a manager at once. Optional, for envs whose step is so short
// that the manager's work around it counts, or that compute several steps faster than one by one.
//
// Each env stays an Env with a state of its own: it is built, seeded, reset, saved and drawn alone.
// When BaseEnvManager steps all of its envs, and all are of one class that is a VectorEnv, it calls
// StepAll() once in the place of Step() of each. Both must have the same results, to the bit. Envs
// in a wrapper of one env, games, and envs with several rewards or with EnvSpec::info are stepped
// one by one.
//
// Ownership, threads: as Env.
// Errors: an exception from StepAll() fails the step of all envs, which must then be reset. It is
//         not retried. NaN and infinity are reported by the number of the env, as after Step().
#ifndef DING_WORKER_ENV_VECTOR_ENV_H_
#define DING_WORKER_ENV_VECTOR_ENV_H_

#include <cstdint>

#include "absl/types/span.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/env/env.h"

namespace ding {

class VectorEnv : public Env {
 public:
  // The step of N envs; row i of each array is of envs[i].
  struct AllEnvs {
    absl::Span<VectorEnv* const> envs;  // of the class of the env that is called
    ColumnsView actions;                // [N, ...], checked to be legal
    MutableColumnsView obs;             // [N, ...]: write the observations after the step
    // [N]: write what Step() writes to StepResult. The ends are passed as zeros.
    absl::Span<float> reward;
    absl::Span<uint8_t> terminated;
    absl::Span<uint8_t> truncated;
  };

  // Steps all envs. Returns false, and has stepped none, if the manager must call Step() of each
  // instead: because an env would return an error, or report an abnormal step.
  virtual bool StepAll(const AllEnvs& all) = 0;

  // Called after StepAll() for each env whose episode ended in it: sets the values that Step() sets
  // in StepResult::info.
  virtual void SetEndInfo(NamedValues* /*info*/) {}
};

}  // namespace ding

#endif  // DING_WORKER_ENV_VECTOR_ENV_H_
