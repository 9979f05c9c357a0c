// Registers the wrappers that change the fields of observations: flatten, one_hot, mask_fields and
// time_left. Only time_left has state: the steps of the episode.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/registry.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/env.pb.h"
#include "ding_worker/env/env_registry.h"
#include "ding_worker/env/env_wrapper.h"
#include "ding_worker/env/wrappers/wrapper_specs.h"
#include "ding_worker/env/wrappers/wrappers.pb.h"

namespace ding {
namespace {

// The number of float32 that a field becomes: one per category, or one per element.
int64_t WidthOf(const FieldSpec& field) {
  if (!field.is_discrete()) return field.num_elements();
  int64_t width = 0;
  for (int64_t i = 0; i < field.num_elements(); ++i) width += field.CategoryCount(i);
  return width;
}

template <typename T>
float* Widen(absl::Span<const T> values, float* to) {
  for (const T value : values) *to++ = static_cast<float>(value);
  return to;
}

// Writes the WidthOf() numbers of field `index`; returns where they end.
float* WriteFloats(const RowView& row, int index, float* to) {
  const FieldSpec& field = row.spec().field(index);
  if (field.is_discrete()) {
    const absl::Span<const int64_t> categories = row.field<int64_t>(index);
    for (size_t i = 0; i < categories.size(); ++i) {
      const int64_t count = field.CategoryCount(static_cast<int64_t>(i));
      std::fill_n(to, count, 0.0f);
      if (categories[i] >= 0 && categories[i] < count) to[categories[i]] = 1;
      to += count;
    }
    return to;
  }
  switch (field.dtype) {
    case DType::kBool:
    case DType::kUint8:
      return Widen(row.field<uint8_t>(index), to);
    case DType::kInt32:
      return Widen(row.field<int32_t>(index), to);
    case DType::kInt64:
      return Widen(row.field<int64_t>(index), to);
    case DType::kFloat32:
      return Widen(row.field<float>(index), to);
    case DType::kFloat64:
      return Widen(row.field<double>(index), to);
  }
  return to;
}

// Appends the bounds of the numbers that a field becomes.
void AppendBounds(const FieldSpec& field, std::vector<double>* low, std::vector<double>* high) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto width = static_cast<size_t>(WidthOf(field));
  const bool unit = field.is_discrete() || field.dtype == DType::kBool;
  const bool bytes = field.dtype == DType::kUint8;
  for (size_t i = 0; i < width; ++i) {
    if (unit || field.low.empty()) {
      low->push_back(unit || bytes ? 0 : -kInfinity);
      high->push_back(unit ? 1 : bytes ? 255 : kInfinity);
    } else {
      low->push_back(field.low[field.low.size() == 1 ? 0 : i]);
      high->push_back(field.high[field.high.size() == 1 ? 0 : i]);
    }
  }
}

class Flatten : public EnvWrapper {
 public:
  Flatten(EnvSpec spec, std::vector<int> fields, int mask)
      : EnvWrapper(std::move(spec), {true, false}), fields_(std::move(fields)), mask_(mask) {}

 protected:
  void Observe(const RowView& inner, const RowRef& obs, bool /*first*/) override {
    float* to = obs.field<float>(0).data();
    for (const int field : fields_) to = WriteFloats(inner, field, to);
    if (mask_ < 0) return;
    std::memcpy(obs.raw_field(1), inner.raw_field(mask_),
                static_cast<size_t>(inner.spec().row_bytes(mask_)));
  }

 private:
  const std::vector<int> fields_;  // of the env inside
  const int mask_;                 // its action mask, or -1
};

absl::StatusOr<std::unique_ptr<EnvWrapper>> CreateFlatten(const EnvWrapperConfig& /*config*/,
                                                          const NoParams& /*params*/,
                                                          const EnvSpec& inner) {
  const int mask = ActionMaskField(inner);
  std::vector<int> fields;
  std::vector<double> low;
  std::vector<double> high;
  for (int i = 0; i < inner.observation->size(); ++i) {
    if (i == mask) continue;
    fields.push_back(i);
    AppendBounds(inner.observation->field(i), &low, &high);
  }
  const auto width = static_cast<int64_t>(low.size());
  std::vector<FieldSpec> flat = {
      Box(mask < 0 ? "obs" : "obs/flat", {width}, std::move(low), std::move(high))};
  if (mask >= 0) flat.push_back(inner.observation->field(mask));
  EnvSpec spec = inner;
  DING_ASSIGN_OR_RETURN(spec.observation, MakeSpec(std::move(flat)));
  return std::make_unique<Flatten>(std::move(spec), std::move(fields), mask);
}

class OneHot : public EnvWrapper {
 public:
  OneHot(EnvSpec spec, std::vector<bool> encoded)
      : EnvWrapper(std::move(spec), {true, false}), encoded_(std::move(encoded)) {}

 protected:
  void Observe(const RowView& inner, const RowRef& obs, bool /*first*/) override {
    for (size_t i = 0; i < encoded_.size(); ++i) {
      const int field = static_cast<int>(i);
      if (encoded_[i]) {
        WriteFloats(inner, field, obs.field<float>(field).data());
      } else {
        std::memcpy(obs.raw_field(field), inner.raw_field(field),
                    static_cast<size_t>(inner.spec().row_bytes(field)));
      }
    }
  }

 private:
  const std::vector<bool> encoded_;  // for each field
};

absl::StatusOr<std::unique_ptr<EnvWrapper>> CreateOneHot(const EnvWrapperConfig& /*config*/,
                                                         const OneHotConfig& params,
                                                         const EnvSpec& inner) {
  const Spec& fields = *inner.observation;
  std::vector<bool> encoded(static_cast<size_t>(fields.size()), false);
  for (const std::string& name : params.field()) {
    DING_ASSIGN_OR_RETURN(const int index, FindObsField(inner, name));
    const FieldSpec& field = fields.field(index);
    if (!field.is_discrete()) {
      return absl::InvalidArgumentError(absl::StrCat("field '", field.name, "' is ",
                                                     field.DebugString(), ", expected categories"));
    }
    encoded[static_cast<size_t>(index)] = true;
  }
  if (params.field().empty()) {
    for (int i = 0; i < fields.size(); ++i) {
      encoded[static_cast<size_t>(i)] = fields.field(i).is_discrete();
    }
  }
  EnvSpec spec = inner;
  for (int i = 0; i < fields.size(); ++i) {
    if (!encoded[static_cast<size_t>(i)]) continue;
    const FieldSpec& field = fields.field(i);
    DING_ASSIGN_OR_RETURN(spec, WithObsField(spec, i, Box(field.name, {WidthOf(field)}, {0}, {1})));
  }
  if (std::find(encoded.begin(), encoded.end(), true) == encoded.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("no field has categories; found\n", fields.DebugString()));
  }
  return std::make_unique<OneHot>(std::move(spec), std::move(encoded));
}

class MaskFields : public EnvWrapper {
 public:
  MaskFields(EnvSpec spec, std::vector<int> kept)
      : EnvWrapper(std::move(spec), {true, false}), kept_(std::move(kept)) {}

 protected:
  void Observe(const RowView& inner, const RowRef& obs, bool /*first*/) override {
    for (size_t i = 0; i < kept_.size(); ++i) {
      std::memcpy(obs.raw_field(static_cast<int>(i)), inner.raw_field(kept_[i]),
                  static_cast<size_t>(inner.spec().row_bytes(kept_[i])));
    }
  }

 private:
  const std::vector<int> kept_;  // fields of the env inside
};

absl::StatusOr<std::unique_ptr<EnvWrapper>> CreateMaskFields(const EnvWrapperConfig& /*config*/,
                                                             const MaskFieldsConfig& params,
                                                             const EnvSpec& inner) {
  if (params.remove().empty() == params.keep().empty()) {
    return absl::InvalidArgumentError(absl::StrCat("params.remove has ", params.remove_size(),
                                                   " fields and params.keep ", params.keep_size(),
                                                   ", expected fields in one of both"));
  }
  const bool keeps = !params.keep().empty();
  std::vector<bool> named(static_cast<size_t>(inner.observation->size()), false);
  for (const std::string& name : keeps ? params.keep() : params.remove()) {
    DING_ASSIGN_OR_RETURN(const int index, FindObsField(inner, name));
    named[static_cast<size_t>(index)] = true;
  }
  std::vector<int> kept;
  std::vector<FieldSpec> fields;
  for (int i = 0; i < inner.observation->size(); ++i) {
    if (named[static_cast<size_t>(i)] != keeps) continue;
    kept.push_back(i);
    fields.push_back(inner.observation->field(i));
  }
  if (kept.empty()) {
    return absl::InvalidArgumentError("params.remove names all fields, expected that one is left");
  }
  EnvSpec spec = inner;
  DING_ASSIGN_OR_RETURN(spec.observation, MakeSpec(std::move(fields)));
  return std::make_unique<MaskFields>(std::move(spec), std::move(kept));
}

class TimeLeft : public EnvWrapper {
 public:
  TimeLeft(EnvSpec spec, int field)
      : EnvWrapper(std::move(spec), {true, false}),
        field_(field),
        max_steps_(this->spec().max_episode_steps) {}

  absl::Status SaveState(StateWriter* writer) const override {
    return writer->WriteInt("steps", steps_);
  }
  absl::Status LoadState(StateReader* reader) override {
    DING_ASSIGN_OR_RETURN(steps_, reader->ReadCount("steps"));
    return absl::OkStatus();
  }

 protected:
  void Observe(const RowView& inner, const RowRef& obs, bool first) override {
    if (first) {
      steps_ = 0;
    } else if (steps_ < max_steps_) {
      ++steps_;
    }
    CopyOtherFields(inner, field_, obs);
    const auto bytes = static_cast<size_t>(inner.spec().row_bytes(field_));
    std::memcpy(obs.raw_field(field_), inner.raw_field(field_), bytes);
    const int64_t left = std::max<int64_t>(0, max_steps_ - steps_);
    obs.field<float>(field_).back() =
        static_cast<float>(static_cast<double>(left) / static_cast<double>(max_steps_));
  }

 private:
  const int field_;
  const int64_t max_steps_;
  int64_t steps_ = 0;  // of the episode, at most max_steps_
};

absl::StatusOr<std::unique_ptr<EnvWrapper>> CreateTimeLeft(const EnvWrapperConfig& /*config*/,
                                                           const TimeLeftConfig& params,
                                                           const EnvSpec& inner) {
  if (inner.max_episode_steps == 0) {
    return absl::InvalidArgumentError("the env has no time limit: put 'time_limit' before");
  }
  DING_ASSIGN_OR_RETURN(const int index, FindObsField(inner, params.field()));
  const FieldSpec& field = inner.observation->field(index);
  if (field.frame_stack_axis >= 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "field '", field.name, "' stacks frames already: put this wrapper before 'frame_stack'"));
  }
  if (field.dtype != DType::kFloat32 || field.shape.size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat("field '", field.name, "' is ",
                                                   field.DebugString(),
                                                   ", expected a float32 vector: put 'flatten' "
                                                   "before"));
  }
  std::vector<double> low;
  std::vector<double> high;
  AppendBounds(field, &low, &high);
  low.push_back(0);
  high.push_back(1);
  DING_ASSIGN_OR_RETURN(EnvSpec spec, WithObsField(inner, index,
                                                   Box(field.name, {field.shape[0] + 1},
                                                       std::move(low), std::move(high))));
  return std::make_unique<TimeLeft>(std::move(spec), index);
}

DING_REGISTER(EnvWrapperRegistry(), "flatten", CreateFlatten,
              "makes one float32 vector of all fields but the action mask");
DING_REGISTER(EnvWrapperRegistry(), "one_hot", CreateOneHot,
              "makes a float32 per category of a field of categories");
DING_REGISTER(EnvWrapperRegistry(), "mask_fields", CreateMaskFields,
              "removes fields of the observation");
DING_REGISTER(EnvWrapperRegistry(), "time_left", CreateTimeLeft,
              "appends the share of the episode's steps that are left to a float32 vector");

}  // namespace
}  // namespace ding
