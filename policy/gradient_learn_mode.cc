#include "ding_worker/policy/gradient_learn_mode.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/finite.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/policy/network.h"

namespace ding {

template <typename T>
void TrainState::Add(std::function<absl::Status(StateWriter*)> save,
                     std::function<absl::StatusOr<T>(StateReader*)> read,
                     std::function<void(const T&)> apply) {
  parts_.push_back({std::move(save),
                    [read = std::move(read), apply = std::move(apply)](
                        StateReader* reader) -> absl::StatusOr<std::function<void()>> {
                      DING_ASSIGN_OR_RETURN(T value, read(reader));
                      // Shared, because std::function copies what it holds, and an Adam cannot be
                      // copied.
                      const auto shared = std::make_shared<const T>(std::move(value));
                      return [apply, shared] { apply(*shared); };
                    }});
}

void TrainState::AddParameters(const std::string& scope, const std::vector<ParameterInfo>& info,
                               absl::Span<float> values) {
  Add<std::vector<float>>(
      [=](StateWriter* writer) { return SaveParameters(info, values, scope, writer); },
      [=](StateReader* reader) -> absl::StatusOr<std::vector<float>> {
        std::vector<float> read(values.size());
        DING_RETURN_IF_ERROR(LoadParameters(info, scope, reader, absl::MakeSpan(read)));
        return read;
      },
      [=](const std::vector<float>& read) { absl::c_copy(read, values.begin()); });
}

void TrainState::AddNetwork(const std::string& scope, Network* network) {
  Add<std::vector<float>>(
      [=](StateWriter* writer) {
        return SaveParameters(network->parameter_info(), std::as_const(*network).parameters(),
                              scope, writer);
      },
      [=](StateReader* reader) -> absl::StatusOr<std::vector<float>> {
        std::vector<float> read(std::as_const(*network).parameters().size());
        DING_RETURN_IF_ERROR(
            LoadParameters(network->parameter_info(), scope, reader, absl::MakeSpan(read)));
        return read;
      },
      [=](const std::vector<float>& read) { absl::c_copy(read, network->parameters().begin()); });
}

void TrainState::AddAdam(const std::string& scope, Adam* adam) {
  Add<Adam>(
      [=](StateWriter* writer) {
        ScopedStateWriter scoped(writer, scope);
        return adam->SaveState(&scoped);
      },
      [=](StateReader* reader) {
        ScopedStateReader scoped(reader, scope);
        return adam->Read(&scoped);
      },
      [=](const Adam& read) { adam->CopyFrom(read); });
}

void TrainState::AddRng(const std::string& name, Rng* rng) {
  Add<Rng>([=](StateWriter* writer) { return writer->WriteRng(name, *rng); },
           [=](StateReader* reader) -> absl::StatusOr<Rng> {
             Rng read = *rng;
             DING_RETURN_IF_ERROR(reader->ReadRng(name, &read));
             return read;
           },
           [=](const Rng& read) { *rng = read; });
}

void TrainState::AddCount(const std::string& name, int64_t* count) {
  Add<int64_t>([=](StateWriter* writer) { return writer->WriteInt(name, *count); },
               [=](StateReader* reader) { return reader->ReadCount(name); },
               [=](int64_t read) { *count = read; });
}

void TrainState::AddSeed(const std::string& name, uint64_t* seed) {
  Add<int64_t>(
      [=](StateWriter* writer) { return writer->WriteInt(name, static_cast<int64_t>(*seed)); },
      [=](StateReader* reader) { return reader->ReadInt(name); },
      [=](int64_t read) { *seed = static_cast<uint64_t>(read); });
}

void TrainState::AddNumber(const std::string& name, double least, double most,
                           const std::function<double()>& get,
                           const std::function<void(double)>& set) {
  Add<double>([=](StateWriter* writer) { return writer->WriteDouble(name, get()); },
              [=](StateReader* reader) -> absl::StatusOr<double> {
                DING_ASSIGN_OR_RETURN(const double read, reader->ReadDouble(name));
                if (std::isfinite(read) && read >= least && read <= most) return read;
                return absl::InvalidArgumentError(absl::StrCat(
                    "the saved '", name, "' is ", read, ", expected ",
                    std::isfinite(least) ? absl::StrCat(least, " to ", most) : "a finite number"));
              },
              set);
}

absl::Status TrainState::Save(StateWriter* writer) const {
  for (const Part& part : parts_) DING_RETURN_IF_ERROR(part.save(writer));
  return absl::OkStatus();
}

absl::Status TrainState::Load(StateReader* reader) {
  std::vector<std::function<void()>> changes;
  for (const Part& part : parts_) {
    DING_ASSIGN_OR_RETURN(std::function<void()> change, part.read(reader));
    changes.push_back(std::move(change));
  }
  for (const std::function<void()>& change : changes) change();
  return absl::OkStatus();
}

ParameterGroup ParametersOf(absl::string_view name, Network* network) {
  return {std::string(name), network->parameter_info(), network->parameters(), network->gradients(),
          network};
}

absl::StatusOr<GroupAdam> GroupAdam::Create(std::vector<ParameterGroup> groups,
                                            const AdamOptions& options, double grad_clip_norm) {
  DING_CHECK(!groups.empty()) << "no parameters";
  GroupAdam made(std::move(groups), options, grad_clip_norm);
  for (const ParameterGroup& group : made.groups_) {
    DING_ASSIGN_OR_RETURN(Adam adam,
                          Adam::Create(options, static_cast<int64_t>(group.parameters.size())));
    made.adams_.push_back(std::move(adam));
    DeviceNetwork* const device = AsDevice(group.network);
    if (device != nullptr) {
      DING_ASSIGN_OR_RETURN(std::unique_ptr<DeviceAdam> moments, device->MakeAdam());
      made.adams_.back().MoveTo(std::move(moments));
      made.any_device_ = true;
    }
    made.devices_.push_back(device);
    made.gradients_.push_back(group.gradients);
  }
  return made;
}

GroupAdam::GroupAdam(std::vector<ParameterGroup> groups, const AdamOptions& options,
                     double grad_clip_norm)
    : groups_(std::move(groups)), options_(options), grad_clip_norm_(grad_clip_norm) {}

absl::Span<const absl::Span<float>> GroupAdam::gradients() {
  for (size_t i = 0; i < groups_.size(); ++i) {
    if (devices_[i] != nullptr) gradients_[i] = groups_[i].network->gradients();
  }
  return gradients_;
}

absl::Status GroupAdam::CheckGradients() const {
  for (size_t i = 0; i < groups_.size(); ++i) {
    const ParameterGroup& group = groups_[i];
    if (devices_[i] != nullptr) {
      DING_ASSIGN_OR_RETURN(const double norm, devices_[i]->GradientNorm());
      if (std::isfinite(norm)) continue;
      group.network->gradients();  // copies them to the span of the group
    }
    const int64_t bad = FindNonFinite(group.gradients);
    if (bad < 0) continue;
    return absl::InternalError(absl::StrCat("gradient ", bad, " of ", group.gradients.size(),
                                            " of '", group.name, "' is ",
                                            group.gradients[static_cast<size_t>(bad)]));
  }
  return absl::OkStatus();
}

// A step of several groups needs the norm of them all first.
absl::Status GroupAdam::StepOnDevices(double* norm) {
  if (groups_.size() == 1) {
    const absl::Status status = adams_[0].StepOnDevice(grad_clip_norm_, norm);
    if (!status.ok()) DING_RETURN_IF_ERROR(CheckGradients());
    return status;
  }
  DING_RETURN_IF_ERROR(CheckGradients());
  std::vector<double> norms;
  double squares = 0;
  for (size_t i = 0; i < groups_.size(); ++i) {
    norms.push_back(GradientNorm(absl::MakeConstSpan(&gradients_[i], 1)));
    if (devices_[i] != nullptr) {
      DING_ASSIGN_OR_RETURN(norms.back(), devices_[i]->GradientNorm());
    }
    squares += norms.back() * norms.back();
  }
  const double all = std::sqrt(squares);
  if (norm != nullptr) *norm = all;
  const bool clips = grad_clip_norm_ > 0 && all > grad_clip_norm_;
  for (size_t i = 0; i < groups_.size(); ++i) {
    // The share of this group in the clipped norm.
    const double share = clips ? grad_clip_norm_ * norms[i] / all : 0;
    if (devices_[i] != nullptr) {
      DING_RETURN_IF_ERROR(adams_[i].StepOnDevice(share, nullptr));
      continue;
    }
    if (share > 0) DING_RETURN_IF_ERROR(ClipGradientNorm(gradients_[i], share).status());
    DING_RETURN_IF_ERROR(adams_[i].Step(groups_[i].gradients, groups_[i].parameters));
  }
  return absl::OkStatus();
}

absl::Status GroupAdam::Step(double* norm) {
  if (any_device_) return StepOnDevices(norm);
  if (grad_clip_norm_ > 0) {
    // It checks all gradients before it changes one; the error here names the group.
    const absl::StatusOr<double> clipped = ClipGradientNorm(gradients_, grad_clip_norm_);
    if (!clipped.ok()) {
      DING_RETURN_IF_ERROR(CheckGradients());
      return clipped.status();
    }
    if (norm != nullptr) *norm = *clipped;
  } else if (norm != nullptr) {
    // A gradient that is not finite makes the norm not finite; huge ones do so, too.
    *norm = GradientNorm(gradients_);
    if (!std::isfinite(*norm)) DING_RETURN_IF_ERROR(CheckGradients());
  } else if (groups_.size() > 1) {
    DING_RETURN_IF_ERROR(CheckGradients());
  }
  for (size_t i = 0; i < groups_.size(); ++i) {
    const absl::Status status = adams_[i].Step(groups_[i].gradients, groups_[i].parameters);
    if (!status.ok()) {
      DING_RETURN_IF_ERROR(CheckGradients());  // a single group, whose Adam has found it
      return status;
    }
  }
  return absl::OkStatus();
}

absl::Status GroupAdam::set_lr(double lr) {
  for (Adam& adam : adams_) DING_RETURN_IF_ERROR(adam.set_lr(lr));
  return absl::OkStatus();
}

void GroupAdam::Remember() {
  for (size_t i = 0; i < groups_.size(); ++i) {
    const absl::Span<const float> parameters =
        groups_[i].network == nullptr ? groups_[i].parameters
                                      : std::as_const(*groups_[i].network).parameters();
    if (i == remembered_adams_.size()) {
      const auto size = static_cast<int64_t>(parameters.size());
      remembered_adams_.push_back(*Adam::Create(options_, size));
      remembered_parameters_.emplace_back(parameters.size());
    }
    remembered_adams_[i].CopyFrom(adams_[i]);
    absl::c_copy(parameters, remembered_parameters_[i].begin());
  }
}

void GroupAdam::GoBack() {
  for (size_t i = 0; i < groups_.size(); ++i) {
    adams_[i].CopyFrom(remembered_adams_[i]);
    const absl::Span<float> parameters =
        groups_[i].network == nullptr ? groups_[i].parameters : groups_[i].network->parameters();
    absl::c_copy(remembered_parameters_[i], parameters.begin());
  }
}

void GroupAdam::AddTo(TrainState* state, absl::string_view scope) {
  for (size_t i = 0; i < groups_.size(); ++i) {
    const std::string& name = groups_[i].name;
    state->AddAdam(scope.empty() ? name : absl::StrCat(scope, "/", name), &adams_[i]);
  }
}

absl::Status LossError(absl::string_view name, double loss, absl::Span<const float> td_error) {
  const int64_t row = FindNonFinite(td_error);
  return absl::InternalError(
      absl::StrCat(name, " is ", loss,
                   row < 0 ? std::string()
                           : absl::StrCat("; the first non-finite td error is that of row ", row)));
}

absl::StatusOr<LossValue> ComputeOwnLoss(LossFunction* loss, const LossInput& input,
                                         absl::Span<float> td_error) {
  DING_ASSIGN_OR_RETURN(LossValue value,
                        CallUser("the loss", [&] { return loss->Compute(input); }));
  if (value.td_error.empty()) return value;
  if (value.td_error.size() != td_error.size()) {
    return absl::InternalError(absl::StrCat("the loss has ", value.td_error.size(),
                                            " td errors, expected ", td_error.size()));
  }
  const int64_t bad = FindNonFinite(value.td_error);
  if (bad >= 0) {
    return absl::InternalError(absl::StrCat("the loss's td error of row ", bad, " is ",
                                            value.td_error[static_cast<size_t>(bad)]));
  }
  absl::c_copy(value.td_error, td_error.begin());
  return value;
}

absl::StatusOr<std::unique_ptr<ThreadTeam>> MakeLearnTeam(int threads) {
  constexpr int kMost = 64;
  if (threads < 1 || threads > kMost) {
    return absl::InvalidArgumentError(
        absl::StrCat("learn_threads is ", threads, ", expected 1..", kMost));
  }
  if (threads == 1) return nullptr;
  return ThreadTeam::Create(threads, "learning");
}

GradientLearnMode::GradientLearnMode(LearnDescription description, GroupAdam adam)
    : description_(std::move(description)) {
  groups_.push_back({std::move(adam)});
}

absl::Status GradientLearnMode::Forward(const Batch& data, const NamedValues& settings,
                                        std::vector<LearnStep>* steps) {
  steps->resize(1);
  LearnStep* const step = &steps->front();
  const absl::Status status = Update(data, settings, step);
  if (!status.ok()) {
    return Annotate(
        status, absl::StrCat(description_.algorithm,
                             saves_train_iter_ ? absl::StrCat(", train iteration ", train_iter_ + 1)
                                               : ", learn"));
  }
  ++train_iter_;
  AfterStep(step);
  return absl::OkStatus();
}

// The rates are read after the gradients are there: a failed batch leaves them.
absl::Status GradientLearnMode::Update(const Batch& data, const NamedValues& settings,
                                       LearnStep* step) {
  BeginReport(step);
  const absl::StatusOr<int64_t> rows = ComputeGradients(data, settings, step);
  absl::Status status = rows.status();
  if (status.ok()) status = ReadRates(settings);
  DING_RETURN_IF_ERROR(Average(rows.value_or(0), status));
  return Step(step);
}

void GradientLearnMode::BeginReport(LearnStep* step) const {
  step->scalars.Clear();
  step->priority.clear();
  step->scalars.Set("cur_lr", groups_.front().adam.lr());  // the first one of a report
}

absl::Status GradientLearnMode::ReadRates(const NamedValues& settings) {
  for (TrainedGroup& group : groups_) {
    const std::optional<double> rate = settings.Get(group.rate_setting);
    if (!rate.has_value()) continue;
    DING_RETURN_IF_ERROR(Annotate(group.adam.set_lr(*rate), group.rate_setting));
  }
  return absl::OkStatus();
}

bool GradientLearnMode::IsDue(size_t group) const {
  return groups_[group].learned && (train_iter_ + 1) % groups_[group].period == 0;
}

absl::Status GradientLearnMode::Average(int64_t rows, const absl::Status& status,
                                        absl::Span<float> more) {
  if (description_.reducer == nullptr) return status;
  averaged_.clear();
  rates_.clear();
  for (size_t i = 0; i < groups_.size(); ++i) {
    if (IsDue(i)) {
      const absl::Span<const absl::Span<float>> gradients = groups_[i].adam.gradients();
      averaged_.insert(averaged_.end(), gradients.begin(), gradients.end());
    }
    if (groups_[i].learned) rates_.push_back(static_cast<float>(groups_[i].adam.lr()));
  }
  if (description_.averages_rates) averaged_.push_back(absl::MakeSpan(rates_));
  averaged_.push_back(more);
  DING_RETURN_IF_ERROR(description_.reducer->Average(averaged_, rows, status));
  if (!description_.averages_rates) return absl::OkStatus();
  size_t at = 0;
  for (TrainedGroup& group : groups_) {
    if (group.learned) DING_RETURN_IF_ERROR(group.adam.set_lr(rates_[at++]));
  }
  return absl::OkStatus();
}

absl::Status GradientLearnMode::Step(LearnStep* step) {
  // A group checks its own gradients before it steps; all groups must be fine before the first one
  // does.
  for (size_t i = 0; groups_.size() > 1 && i < groups_.size(); ++i) {
    if (IsDue(i)) DING_RETURN_IF_ERROR(groups_[i].adam.CheckGradients());
  }
  const bool measures = (train_iter_ + 1) % description_.norm_period == 0;
  double norm = 0;
  for (size_t i = 0; i < groups_.size(); ++i) {
    if (!IsDue(i)) continue;
    DING_RETURN_IF_ERROR(groups_[i].adam.Step(i == 0 && measures ? &norm : nullptr));
  }
  step->scalars.Set("cur_lr", groups_.front().adam.lr());
  if (measures) step->scalars.Set("grad_norm", norm);
  return absl::OkStatus();
}

void GradientLearnMode::ReportTdErrors(absl::Span<const float> td_error, int64_t rows,
                                       LearnStep* step) const {
  double absolute = 0;
  for (const float td : td_error) absolute += std::abs(td);
  step->scalars.Set("td_error", absolute / static_cast<double>(rows));
  if (!description_.attributes.priority) return;
  for (const float td : td_error) step->priority.push_back(std::abs(td));
}

void GradientLearnMode::AddTrainIter() {
  state_.AddCount("train_iter", &train_iter_);
  saves_train_iter_ = true;
}

}  // namespace ding
