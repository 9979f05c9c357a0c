// Writes the actor of a checkpoint in formats of other programs. The target of a format registers
// its exporter:
//
//   "onnx"         policy.onnx, for any runtime of ONNX             //policy/export:onnx_exporter
//   "c"            policy.h and policy.c, C99 without dependencies  //policy/export:c_exporter
//   "torchscript"  policy.pt, for libtorch and Python's torch       //policy/torch:torchscript_exporter
//
// All formats have the same inputs and outputs, for B rows (C: one row):
//
//   inputs   each field of the observation by its name, not normalized; if recurrent also "state"
//            [B, S], 0 at the beginning of an episode
//   outputs  "action" [B, ...], the best one; the outputs of the network ("q", "logit" or "mean");
//            if recurrent also "next_state" [B, S]
//
// Threads: thread-safe.
#ifndef DING_WORKER_POLICY_EXPORT_EXPORTER_H_
#define DING_WORKER_POLICY_EXPORT_EXPORTER_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/policy/actor/actor.h"
#include "ding_worker/policy/actor/actor_model.h"

namespace ding {

inline constexpr char kStateInput[] = "state";
inline constexpr char kStateOutput[] = "next_state";
inline constexpr char kActionOutput[] = "action";

struct ExportedFile {
  std::string name;
  std::string content;
};

// The bounds of a box, and half the distance between them, for each element. Actions in [-1, 1] are
// scaled to them.
struct BoxBounds {
  std::vector<double> low;
  std::vector<double> high;
  std::vector<double> half;
};
BoxBounds BoundsOf(const FieldSpec& action);

// Converts a model to files.
//   kUnimplemented  the format does not support a layer or the head of the model; names it
using Exporter = std::function<absl::StatusOr<std::vector<ExportedFile>>(const ActorModel&)>;
Registry<Exporter>& ExporterRegistry();

// Returns the content of golden.json, which serves to check an export: 16 rows of random inputs,
// and the actor's outputs for them.
//   {"inputs": {name: {"shape": [16, ...], "data": [...]}, ...}, "outputs": {...}}
absl::StatusOr<std::string> MakeGolden(Actor* actor);

// Exports the checkpoint to the folder `output`, which is created; other files in it stay. Writes
// golden.json last. Returns the files. Errors name the checkpoint or the file:
//   kNotFound  no exporter has this format: lists the existing formats
//   kInternal  the exporter threw an exception, or returned no files
//   others     the errors of LoadActorModel(), of the exporter and of writing files
absl::StatusOr<std::vector<std::string>> ExportCheckpoint(const std::string& checkpoint,
                                                          const std::string& format,
                                                          const std::string& output);

}  // namespace ding

#endif  // DING_WORKER_POLICY_EXPORT_EXPORTER_H_
