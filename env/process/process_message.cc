#include "ding_worker/env/process/process_message.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/tensor.h"

namespace ding {
namespace {

absl::Status CutOff() { return absl::DataLossError("a message between processes is cut off"); }
absl::Status Damaged() { return absl::DataLossError("a message between processes is damaged"); }

// Returns nullopt if the number is not a type.
std::optional<DType> TakeDType(ProcessMessageReader* in) {
  const int number = in->Number<int>();
  if (number < 0 || number > static_cast<int>(DType::kFloat64)) return std::nullopt;
  return static_cast<DType>(number);
}

template <typename Values>
void PutNumbers(const Values& values, ProcessMessageWriter* out) {
  out->Number(static_cast<int64_t>(values.size()));
  for (const auto value : values) out->Number(value);
}

template <typename Values>
void TakeNumbers(ProcessMessageReader* in, Values* values) {
  const int64_t size = in->Number<int64_t>();
  for (int64_t i = 0; i < size && in->ok(); ++i) {
    values->push_back(in->Number<typename Values::value_type>());
  }
}

void Put(const Spec& spec, ProcessMessageWriter* out) {
  out->Number(spec.size());
  for (const FieldSpec& field : spec.fields()) {
    out->Bytes(field.name);
    out->Number(static_cast<int>(field.dtype));
    PutNumbers(field.shape, out);
    PutNumbers(field.low, out);
    PutNumbers(field.high, out);
    out->Number(field.num_categories);
    out->Number(field.frame_stack_axis);
  }
}

absl::StatusOr<SpecPtr> TakeSpec(ProcessMessageReader* in) {
  std::vector<FieldSpec> fields;
  const int size = in->Number<int>();
  for (int i = 0; i < size && in->ok(); ++i) {
    FieldSpec field;
    field.name = std::string(in->Bytes());
    const std::optional<DType> dtype = TakeDType(in);
    if (!dtype.has_value()) return Damaged();
    field.dtype = *dtype;
    TakeNumbers(in, &field.shape);
    TakeNumbers(in, &field.low);
    TakeNumbers(in, &field.high);
    field.num_categories = in->Number<int64_t>();
    field.frame_stack_axis = in->Number<int>();
    fields.push_back(std::move(field));
  }
  if (!in->ok()) return CutOff();
  return MakeSpec(std::move(fields));
}

}  // namespace

void Put(const absl::Status& status, ProcessMessageWriter* out) {
  out->Number(static_cast<int>(status.code()));
  out->Bytes(status.message());
}

absl::Status TakeStatus(ProcessMessageReader* in) {
  const auto code = static_cast<absl::StatusCode>(in->Number<int>());
  return absl::Status(code, in->Bytes());
}

void Put(const NamedValues& values, ProcessMessageWriter* out) {
  out->Number(static_cast<int64_t>(values.size()));
  for (const NamedValues::Entry& entry : values) {
    out->Bytes(entry.first);
    out->Number(entry.second);
  }
}

NamedValues TakeNamedValues(ProcessMessageReader* in) {
  NamedValues values;
  const int64_t size = in->Number<int64_t>();
  for (int64_t i = 0; i < size && in->ok(); ++i) {
    const absl::string_view name = in->Bytes();
    values.Set(name, in->Number<double>());
  }
  return values;
}

void Put(const Image& image, ProcessMessageWriter* out) {
  out->Number(image.width);
  out->Number(image.height);
  out->Bytes({reinterpret_cast<const char*>(image.rgb.data()), image.rgb.size()});
}

Image TakeImage(ProcessMessageReader* in) {
  Image image;
  image.width = in->Number<int>();
  image.height = in->Number<int>();
  const absl::string_view bytes = in->Bytes();
  image.rgb.assign(bytes.begin(), bytes.end());
  return image;
}

void Put(const StateDict& state, ProcessMessageWriter* out) {
  out->Number(static_cast<int64_t>(state.tensors().size()));
  for (const TensorMap::Entry& entry : state.tensors()) {
    out->Bytes(entry.first);
    out->Number(static_cast<int>(entry.second.dtype()));
    PutNumbers(entry.second.shape(), out);
    out->Bytes(entry.second.bytes());
  }
}

absl::Status TakeState(ProcessMessageReader* in, StateWriter* state) {
  const int64_t size = in->Number<int64_t>();
  for (int64_t i = 0; i < size && in->ok(); ++i) {
    const absl::string_view name = in->Bytes();
    const std::optional<DType> dtype = TakeDType(in);
    Shape shape;
    TakeNumbers(in, &shape);
    const absl::string_view bytes = in->Bytes();
    if (!in->ok()) break;
    if (!dtype.has_value() ||
        CheckedByteSize(*dtype, shape) != static_cast<int64_t>(bytes.size())) {
      return Damaged();
    }
    DING_RETURN_IF_ERROR(state->Write(name, *dtype, shape, {bytes}));
  }
  return in->ok() ? absl::OkStatus() : CutOff();
}

void Put(const EnvSpec& spec, ProcessMessageWriter* out) {
  out->Bytes(spec.name);
  Put(*spec.observation, out);
  Put(*spec.action, out);
  out->Number(spec.players);
  PutNumbers(spec.reward_shape, out);
  out->Number(spec.reward_low);
  out->Number(spec.reward_high);
  out->Number(spec.max_episode_steps);
  if (spec.info == nullptr) {
    out->Number(0);  // fields
  } else {
    Put(*spec.info, out);
  }
}

absl::Status TakeEnvSpec(ProcessMessageReader* in, EnvSpec* spec) {
  spec->name = std::string(in->Bytes());
  DING_ASSIGN_OR_RETURN(spec->observation, TakeSpec(in));
  DING_ASSIGN_OR_RETURN(spec->action, TakeSpec(in));
  spec->players = in->Number<int>();
  TakeNumbers(in, &spec->reward_shape);
  spec->reward_low = in->Number<double>();
  spec->reward_high = in->Number<double>();
  spec->max_episode_steps = in->Number<int64_t>();
  DING_ASSIGN_OR_RETURN(const SpecPtr info, TakeSpec(in));
  if (info->size() > 0) spec->info = info;
  return in->ok() ? absl::OkStatus() : CutOff();
}

}  // namespace ding
