#include "ding_worker/env/mujoco/mujoco_model.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

// The models that are in use, by kind and name. MuJoCo's compiler is not thread-safe either.
struct Models {
  Mutex mutex;
  std::map<std::string, std::weak_ptr<const MujocoModel>> by_name ABSL_GUARDED_BY(mutex);
};
Models& AllModels() {
  static auto* const models = new Models;
  return *models;
}

void DropWarning(const char*) {}
void EndOnError(const char* text) {
  std::fprintf(stderr, "MuJoCo failed: %s\n", text);
  std::exit(1);
}

// A program that has handlers of its own keeps them.
void InstallHandlers() {
  if (mju_user_warning == nullptr) mju_user_warning = DropWarning;
  if (mju_user_error == nullptr) mju_user_error = EndOnError;
}

const char* KindName(mjtObj kind) {
  switch (kind) {
    case mjOBJ_JOINT:
      return "joint";
    case mjOBJ_CAMERA:
      return "camera";
    case mjOBJ_BODY:
      return "body";
    default:
      return "part";
  }
}

int Count(const mjModel& model, mjtObj kind) {
  switch (kind) {
    case mjOBJ_JOINT:
      return model.njnt;
    case mjOBJ_CAMERA:
      return model.ncam;
    case mjOBJ_BODY:
      return model.nbody;
    default:
      return 0;
  }
}

}  // namespace

MujocoModel::~MujocoModel() { mj_deleteModel(model_); }

absl::StatusOr<std::shared_ptr<const MujocoModel>> MujocoModel::Load(const std::string& name,
                                                                     const std::string& file,
                                                                     const mjVFS* files) {
  Models& models = AllModels();
  MutexLock lock(&models.mutex);
  InstallHandlers();
  // A text and a file of the same name are two models.
  std::weak_ptr<const MujocoModel>& place =
      models.by_name[absl::StrCat(files == nullptr ? "file " : "text ", name)];
  if (std::shared_ptr<const MujocoModel> model = place.lock()) return model;
  char error[1000] = "";
  mjModel* const model = mj_loadXML(file.c_str(), files, error, sizeof(error));
  if (model == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("MuJoCo refuses the model '", name, "': ", error));
  }
  std::shared_ptr<const MujocoModel> loaded(new MujocoModel(name, model));
  place = loaded;
  return loaded;
}

absl::StatusOr<std::shared_ptr<const MujocoModel>> MujocoModel::FromFile(const std::string& path) {
  // A check of our own: MuJoCo's message does not say why a file cannot be read.
  DING_RETURN_IF_ERROR(ReadFile(path).status());
  return Load(path, path, nullptr);
}

absl::StatusOr<std::shared_ptr<const MujocoModel>> MujocoModel::FromText(const std::string& name,
                                                                         absl::string_view text) {
  constexpr char kFile[] = "model.xml";
  const auto files = std::make_unique<mjVFS>();
  mj_defaultVFS(files.get());
  if (mj_makeEmptyFileVFS(files.get(), kFile, static_cast<int>(text.size())) != 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for the model '", name, "' of ", text.size(), " bytes"));
  }
  text.copy(static_cast<char*>(files->filedata[0]), text.size());
  const absl::StatusOr<std::shared_ptr<const MujocoModel>> model = Load(name, kFile, files.get());
  mj_deleteVFS(files.get());
  return model;
}

absl::StatusOr<int> MujocoModel::Find(mjtObj kind, absl::string_view name) const {
  const int id = mj_name2id(model_, kind, std::string(name).c_str());
  if (id >= 0) return id;
  std::vector<std::string> names;
  for (int i = 0; i < Count(*model_, kind); ++i) {
    if (const char* const other = mj_id2name(model_, kind, i)) names.push_back(other);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the model '", name_, "' has no ", KindName(kind), " '", name,
                   "'; it has: ", names.empty() ? "none with a name" : absl::StrJoin(names, ", ")));
}

absl::StatusOr<MujocoModel::JointPlace> MujocoModel::FindJoint(absl::string_view name) const {
  DING_ASSIGN_OR_RETURN(const int joint, Find(mjOBJ_JOINT, name));
  const int type = model_->jnt_type[joint];
  if (type != mjJNT_HINGE && type != mjJNT_SLIDE) {
    return absl::InvalidArgumentError(
        absl::StrCat("joint '", name, "' of the model '", name_,
                     "' is of several numbers, expected one of type hinge or slide"));
  }
  return JointPlace{model_->jnt_qposadr[joint], model_->jnt_dofadr[joint]};
}

}  // namespace ding
