#include "ding_worker/collector/evaluator/interaction_serial_evaluator.h"

#include <optional>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/core/serial_common.h"

namespace ding {
namespace {

using RenderMode = InteractionSerialEvaluator::RenderMode;

absl::string_view RenderModeName(RenderMode mode) {
  return mode == RenderMode::kEnvstep ? "envstep" : "train_iter";
}

}  // namespace

absl::StatusOr<std::unique_ptr<InteractionSerialEvaluator>> InteractionSerialEvaluator::Create(
    Options options, EnvManager* env, EvalMode* policy, ComponentDeps deps) {
  EvalCore::Options core_options;
  core_options.common = options;
  std::vector<std::string>& problems = core_options.common.problems;
  if (options.render_freq < 1 && options.render_freq != -1) {
    problems.push_back(absl::StrCat("render_freq is ", options.render_freq,
                                    ", expected at least 1, or -1 for never"));
  }
  if (options.max_video_frames < 1) {
    problems.push_back(
        absl::StrCat("max_video_frames is ", options.max_video_frames, ", expected at least 1"));
  }
  DING_ASSIGN_OR_RETURN(
      std::unique_ptr<EvalCore> core,
      EvalCore::Create(std::move(core_options), env, PoliciesOf(policy), std::move(deps)));
  return absl::WrapUnique(new InteractionSerialEvaluator(std::move(options), std::move(core)));
}

InteractionSerialEvaluator::InteractionSerialEvaluator(Options options,
                                                       std::unique_ptr<EvalCore> core)
    : CoreEvaluator(std::move(core)), options_(std::move(options)) {}

absl::Status InteractionSerialEvaluator::Reset(EvalMode* policy, EnvManager* env) {
  DING_RETURN_IF_ERROR(CoreEvaluator::Reset(policy, env));
  last_render_iter_ = -1;
  return absl::OkStatus();
}

absl::StatusOr<EvalResult> InteractionSerialEvaluator::Eval(const EvalOptions& options) {
  DING_RETURN_IF_ERROR(CheckCanFilm(options));
  std::optional<EvalVideos> videos;
  if (ShouldRender(options)) {
    DING_RETURN_IF_ERROR(CheckFigurePath());
    videos.emplace(core()->env_num(), options_.max_video_frames);
  }
  DING_ASSIGN_OR_RETURN(const EvalCore::Outcome outcome,
                        core()->Eval(options, videos.has_value() ? &*videos : nullptr));
  if (videos.has_value()) {
    // A video is worth less than the evaluation, and than the run that a full disk would end here.
    const absl::Status written = WriteVideos(options, &*videos);
    DING_LOG_IF(WARNING, !written.ok())
        << core()->deps().name
        << ": not all videos of this evaluation could be written: " << written.message()
        << ". The run goes on";
    last_render_iter_ = RenderClock(options);
  }
  return outcome.ToResult();
}

absl::Status InteractionSerialEvaluator::CheckCanFilm(const EvalOptions& options) {
  if (can_film_ || options_.render_freq == -1 || RenderClock(options) < 0) return absl::OkStatus();
  DING_RETURN_IF_ERROR(CheckFigurePath());
  const absl::Status picture = core()->CheckRender();
  // An env that has not answered yet shows nothing. The next evaluation asks again.
  if (absl::IsFailedPrecondition(picture)) return absl::OkStatus();
  can_film_ = picture.ok();
  return picture;
}

int64_t InteractionSerialEvaluator::RenderClock(const EvalOptions& options) const {
  return options_.render_mode == RenderMode::kEnvstep ? options.envstep : options.train_iter;
}

bool InteractionSerialEvaluator::ShouldRender(const EvalOptions& options) const {
  if (options.force_render) return true;
  return options_.render_freq != -1 &&
         RenderClock(options) - last_render_iter_ >= options_.render_freq;
}

std::string InteractionSerialEvaluator::FigureFolder() const {
  return JoinPath(core()->deps().exp_dir, options_.figure_path);
}

absl::Status InteractionSerialEvaluator::CheckFigurePath() const {
  if (options_.figure_path.empty()) return absl::OkStatus();
  const std::string folder = FigureFolder();
  const std::string context =
      absl::StrCat(core()->deps().name, ": figure_path '", folder, "' cannot be written");
  DING_RETURN_IF_ERROR(Annotate(CreateDirectories(folder), context));
  // The file is not committed, so it leaves nothing behind.
  return Annotate(AtomicFileWriter::Create(JoinPath(folder, "writable")).status(), context);
}

absl::Status InteractionSerialEvaluator::WriteVideos(const EvalOptions& options,
                                                     EvalVideos* videos) const {
  const std::string prefix =
      absl::StrCat(core()->deps().name, "_", RenderModeName(options_.render_mode));
  for (const EvalVideos::Video& video : videos->TakeChosen()) {
    CallSink([&] {
      core()->deps().metrics->EncodedImage(absl::StrCat(prefix, "/", video.which),
                                           RenderClock(options), video.width, video.height,
                                           video.bytes);
    });
    if (options_.figure_path.empty()) continue;
    const std::string path = JoinPath(
        FigureFolder(), absl::StrCat(prefix, "_", RenderClock(options), "_", video.which, ".gif"));
    DING_RETURN_IF_ERROR(WriteFileAtomically(path, video.bytes));
    DING_LOG(INFO) << core()->deps().name << ": " << path << " shows the " << video.which
                   << " episode, return " << video.episode_return;
  }
  return absl::OkStatus();
}

absl::Status InteractionSerialEvaluator::SaveState(StateWriter* writer) const {
  DING_RETURN_IF_ERROR(CoreEvaluator::SaveState(writer));
  return writer->WriteInt("last_render_iter", last_render_iter_);
}

absl::Status InteractionSerialEvaluator::LoadState(StateReader* reader) {
  DING_ASSIGN_OR_RETURN(const int64_t last_render_iter,
                        reader->ReadCount("last_render_iter", /*least=*/-1));
  DING_RETURN_IF_ERROR(CoreEvaluator::LoadState(reader));
  last_render_iter_ = last_render_iter;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<BattleInteractionSerialEvaluator>>
BattleInteractionSerialEvaluator::Create(Options options, EnvManager* env,
                                         std::vector<EvalMode*> policies, ComponentDeps deps) {
  EvalCore::Options core_options;
  core_options.common = options;
  core_options.game = true;
  DING_ASSIGN_OR_RETURN(
      std::unique_ptr<EvalCore> core,
      EvalCore::Create(std::move(core_options), env, std::move(policies), std::move(deps)));
  return absl::WrapUnique(new BattleInteractionSerialEvaluator(std::move(core)));
}

absl::StatusOr<BattleEvalResult> BattleInteractionSerialEvaluator::Eval(
    const EvalOptions& options) {
  if (options.force_render) {
    return absl::InvalidArgumentError(
        absl::StrCat(core_->deps().name, ": force_render is set, but games are not filmed"));
  }
  DING_ASSIGN_OR_RETURN(const EvalCore::Outcome outcome, core_->Eval(options, nullptr));
  BattleEvalResult result;
  result.stop = outcome.stop;
  result.mean_return = outcome.score;
  result.envstep_count = outcome.envsteps;
  result.abnormal_episode_count = outcome.abnormal_episodes;
  for (int player = 0; player < core_->player_num(); ++player) {
    result.episode_return.push_back(outcome.monitor.GetEpisodeReturn(player));
  }
  result.episode_info = outcome.monitor.GetEpisodeInfo();
  return result;
}

}  // namespace ding
