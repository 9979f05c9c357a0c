// Registers the wrapper record_video: videos of each N-th episode of env 0, whatever the manager.
//
// State: the number of episodes of env 0, and the steps of the running one. A video that was being
// recorded when the state was saved is left out; the next one that is due is recorded.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/image.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_manager.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/env/env_wrapper.h"
#include "ding_worker/env/wrappers/wrapper_specs.h"
#include "ding_worker/env/wrappers/wrappers.pb.h"
#include "ding_worker/metrics/video.h"

namespace ding {
namespace {

constexpr int kFilmed = 0;  // the env
constexpr char kEpisodes[] = "episodes";
constexpr char kSteps[] = "steps";

class RecordedEnvs : public EnvManagerWrapper {
 public:
  RecordedEnvs(std::unique_ptr<EnvManager> inner, RecordVideoConfig params, std::string path_start)
      : EnvManagerWrapper(std::move(inner)),
        params_(std::move(params)),
        path_start_(std::move(path_start)) {
    this->inner()->set_on_episode_end([this](int env_id) {
      if (env_id == kFilmed) last_picture_ = AddPicture();
      if (on_episode_end_) on_episode_end_(env_id);
    });
  }

  absl::Status Launch() override {
    episode_ = steps_ = 0;
    DING_RETURN_IF_ERROR(inner()->Launch());
    return BeginEpisode();
  }
  absl::Status Reset() override {
    DING_RETURN_IF_ERROR(inner()->Reset());
    return BeginNext();
  }
  absl::Status Reset(absl::Span<const EnvReset> envs) override {
    DING_RETURN_IF_ERROR(inner()->Reset(envs));
    for (const EnvReset& env : envs) {
      if (env.env_id == kFilmed) return BeginNext();
    }
    return absl::OkStatus();
  }

  absl::StatusOr<const Timesteps*> Step(absl::Span<const int> env_ids,
                                        const ColumnsView& actions) override {
    DING_ASSIGN_OR_RETURN(const Timesteps* const steps, inner()->Step(env_ids, actions));
    for (size_t i = 0; i < steps->env_ids.size(); ++i) {
      if (steps->env_ids[i] != kFilmed) continue;
      ++steps_;
      if (steps->abnormal[i] != 0) {
        DING_RETURN_IF_ERROR(BeginNext());
      } else if (steps->terminated[i] != 0 || steps->truncated[i] != 0) {
        DING_RETURN_IF_ERROR(last_picture_);
        DING_RETURN_IF_ERROR(EndVideo());
        DING_RETURN_IF_ERROR(BeginNext());
      } else {
        DING_RETURN_IF_ERROR(AddFrame());
      }
      break;
    }
    return steps;
  }

  void set_on_episode_end(std::function<void(int env_id)> function) override {
    on_episode_end_ = std::move(function);
  }
  void Close() override {
    video_ = nullptr;
    inner()->Close();
  }

 protected:
  absl::Status SaveOwnState(StateWriter* writer) const override {
    DING_RETURN_IF_ERROR(writer->WriteInt(kSteps, steps_));
    return writer->WriteInt(kEpisodes, episode_);
  }
  absl::Status LoadOwnState(StateReader* reader, absl::Span<const int> /*restarted*/) override {
    DING_ASSIGN_OR_RETURN(steps_, reader->ReadCount(kSteps));
    DING_ASSIGN_OR_RETURN(episode_, reader->ReadCount(kEpisodes));
    video_ = nullptr;
    return absl::OkStatus();
  }

 private:
  // An episode without a step, whose env may only have been reset by hand, does not count.
  absl::Status BeginNext() {
    if (steps_ > 0) ++episode_;
    steps_ = 0;
    return BeginEpisode();
  }
  absl::Status BeginEpisode() {
    video_ = nullptr;
    if (episode_ % params_.every() != 0) return absl::OkStatus();
    DING_ASSIGN_OR_RETURN(video_, MakeVideoEncoder(params_.format(), params_.frames_per_second()));
    return AddFrame();
  }

  absl::Status AddFrame() {
    // An env that resets meanwhile has nothing to show yet.
    return inner()->env_state(kFilmed) == EnvState::kRun ? AddPicture() : absl::OkStatus();
  }
  absl::Status AddPicture() {
    if (video_ == nullptr || video_->frames() >= params_.max_frames()) return absl::OkStatus();
    const absl::StatusOr<Image> picture = inner()->Render(kFilmed);
    if (!picture.ok()) return Annotate(picture.status(), "env.wrapper 'record_video'");
    const absl::Status added = CallUser("its encoder", [&] { return video_->AddFrame(*picture); });
    return Annotate(added, "env.wrapper 'record_video'");
  }

  absl::Status EndVideo() {
    if (video_ == nullptr || video_->frames() == 0) return absl::OkStatus();
    const absl::StatusOr<std::string> bytes =
        CallUser("its encoder", [&] { return video_->Finish(); });
    video_ = nullptr;
    if (!bytes.ok()) return Annotate(bytes.status(), "env.wrapper 'record_video'");
    return WriteFileAtomically(absl::StrCat(path_start_, episode_, ".", params_.format()), *bytes);
  }

  const RecordVideoConfig params_;
  const std::string path_start_;
  int64_t episode_ = 0;                             // number of the running episode of env 0
  int64_t steps_ = 0;                               // its steps so far
  std::unique_ptr<VideoEncoder> video_;             // null: the episode is not recorded
  absl::Status last_picture_;                       // of the episode that has ended
  std::function<void(int env_id)> on_episode_end_;  // of the caller
};

absl::StatusOr<std::unique_ptr<EnvManager>> Create(const EnvWrapperConfig& /*config*/,
                                                   const RecordVideoConfig& params,
                                                   const EnvsUse& use,
                                                   std::unique_ptr<EnvManager> inner) {
  // A format that cannot be made is refused now, not at the first picture.
  DING_RETURN_IF_ERROR(Annotate(
      MakeVideoEncoder(params.format(), params.frames_per_second()).status(), "params.format"));
  if (use.video_folder.empty()) {
    if (use.evaluates) return inner;
    return absl::InvalidArgumentError(
        "this program has no folder for videos, expected serial training (tools/train, "
        "//worker:serial); evaluations make videos by --video");
  }
  DING_RETURN_IF_ERROR(CreateDirectories(use.video_folder));
  std::string path_start =
      absl::StrCat(use.video_folder, "/", use.evaluates ? "evaluation_episode_" : "episode_");
  return std::make_unique<RecordedEnvs>(std::move(inner), params, std::move(path_start));
}

DING_REGISTER(EnvWrapperRegistry(), "record_video", Create,
              "makes a video of each `every`-th episode of env 0");

}  // namespace
}  // namespace ding
