// A compiled model of MuJoCo, from an MJCF file or text, whose parts can be found by name.
//
// All envs of a process with the same file share one model, which is freed with the last of them. A
// changed file is read again only after that. Our own models are texts in the program.
//
// MuJoCo ends the process when it fails inside of a step (for example without memory). It would
// write its warnings to a file in the current folder, so they are dropped: an env checks the counts
// of warnings in its mjData.
//
// Ownership: shared.   Threads: thread-safe; a model is never changed.
// Errors:    kNotFound without the file; kInvalidArgument, with MuJoCo's text, if MuJoCo refuses
//            the model; both name the file.
#ifndef DING_WORKER_ENV_MUJOCO_MUJOCO_MODEL_H_
#define DING_WORKER_ENV_MUJOCO_MUJOCO_MODEL_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "mujoco/mujoco.h"

namespace ding {

class MujocoModel {
 public:
  // Returns the model of an MJCF file, which may include others and meshes beside it.
  static absl::StatusOr<std::shared_ptr<const MujocoModel>> FromFile(const std::string& path);
  // Returns the model of an MJCF text; `name` stands for it in messages and among the shared
  // models.
  static absl::StatusOr<std::shared_ptr<const MujocoModel>> FromText(const std::string& name,
                                                                     absl::string_view text);
  ~MujocoModel();
  MujocoModel(const MujocoModel&) = delete;
  MujocoModel& operator=(const MujocoModel&) = delete;

  const std::string& name() const { return name_; }
  const mjModel& get() const { return *model_; }

  // The number of a part of the model. kInvalidArgument lists the existing names if there is no
  // such part.
  absl::StatusOr<int> Find(mjtObj kind, absl::string_view name) const;
  // The place of a joint in qpos and qvel; kInvalidArgument also for one with several numbers
  // (ball, free).
  struct JointPlace {
    int qpos;
    int qvel;
  };
  absl::StatusOr<JointPlace> FindJoint(absl::string_view name) const;

 private:
  MujocoModel(std::string name, mjModel* model) : name_(std::move(name)), model_(model) {}
  static absl::StatusOr<std::shared_ptr<const MujocoModel>> Load(const std::string& name,
                                                                 const std::string& file,
                                                                 const mjVFS* files);

  const std::string name_;
  mjModel* const model_;
};

}  // namespace ding

#endif  // DING_WORKER_ENV_MUJOCO_MUJOCO_MODEL_H_
