#include "ding_worker/policy/export/exporter.h"

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/data/spec.h"
#include "nlohmann/json.hpp"

namespace ding {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kGoldenRows = 16;

void FillRandomly(const FieldSpec& field, int index, Rng* rng, const BatchBuilder& obs) {
  if (field.dtype == DType::kFloat32) {
    for (float& value : obs.column<float>(index)) value = static_cast<float>(rng->Normal());
  } else if (field.name == kActionMaskField) {
    for (uint8_t& legal : obs.column<uint8_t>(index)) legal = rng->Uniform() < 0.5 ? 1 : 0;
  } else {
    for (uint8_t& value : obs.column<uint8_t>(index)) {
      value = static_cast<uint8_t>(rng->UniformInt(256));
    }
  }
}

// Makes one category of each element of the action legal in every row.
void EnsureLegal(const ActorModel& model, const BatchBuilder& obs) {
  if (!model.mask_field.has_value()) return;
  const FieldSpec& action = model.action->field(0);
  const absl::Span<uint8_t> mask = obs.column<uint8_t>(*model.mask_field);
  size_t begin = 0;
  for (int64_t row = 0; row < kGoldenRows; ++row) {
    for (int64_t i = 0; i < action.num_elements(); ++i) {
      mask[begin + static_cast<size_t>(row % action.CategoryCount(i))] = 1;
      begin += static_cast<size_t>(action.CategoryCount(i));
    }
  }
}

template <typename T>
Json ToJson(const Shape& row_shape, absl::Span<const T> values) {
  Json shape = {kGoldenRows};
  for (const int64_t extent : row_shape) shape.push_back(extent);
  return {{"shape", std::move(shape)}, {"data", std::vector<T>(values.begin(), values.end())}};
}

Json ColumnToJson(const ColumnsView& rows, int index) {
  const FieldSpec& field = rows.spec().field(index);
  switch (field.dtype) {
    case DType::kFloat32:
      return ToJson(field.shape, rows.column<float>(index));
    case DType::kInt64:
      return ToJson(field.shape, rows.column<int64_t>(index));
    default:
      return ToJson(field.shape, rows.column<uint8_t>(index));
  }
}

}  // namespace

Registry<Exporter>& ExporterRegistry() {
  static auto* const registry = new Registry<Exporter>("export format");
  return *registry;
}

absl::StatusOr<std::string> MakeGolden(Actor* actor) {
  const ActorModel& model = actor->model();
  DING_ASSIGN_OR_RETURN(const BatchBuilder obs,
                        BatchBuilder::Create(model.observation, kGoldenRows));
  Rng rng(0, "golden");
  for (int i = 0; i < model.observation->size(); ++i) {
    FillRandomly(model.observation->field(i), i, &rng, obs);
  }
  EnsureLegal(model, obs);
  Json inputs;
  for (int i = 0; i < model.observation->size(); ++i) {
    inputs[model.observation->field(i).name] = ColumnToJson(obs.view(), i);
  }
  std::vector<int> ids;
  for (int i = 0; i < kGoldenRows; ++i) ids.push_back(i);
  const Shape state_shape = {model.state_size()};
  std::vector<float> state(static_cast<size_t>(kGoldenRows * model.state_size()));
  for (float& value : state) value = static_cast<float>(rng.Uniform(-1, 1));
  if (!state.empty()) {
    DING_RETURN_IF_ERROR(actor->SetStates(ids, state));
    inputs[kStateInput] = ToJson<float>(state_shape, state);
  }
  DING_ASSIGN_OR_RETURN(const ColumnsView action, actor->Act(obs.view(), ids));
  Json outputs = {{kActionOutput, ColumnToJson(action, 0)}};
  for (int i = 0; i < model.outputs->size(); ++i) {
    outputs[model.outputs->field(i).name] = ColumnToJson(actor->outputs(), i);
  }
  if (!state.empty()) outputs[kStateOutput] = ToJson<float>(state_shape, actor->States(ids));
  return Json({{"inputs", inputs}, {"outputs", outputs}}).dump();
}

BoxBounds BoundsOf(const FieldSpec& action) {
  BoxBounds bounds;
  for (int64_t i = 0; i < action.num_elements(); ++i) {
    const size_t bound = action.low.size() == 1 ? 0 : static_cast<size_t>(i);
    bounds.low.push_back(static_cast<float>(action.low[bound]));
    bounds.high.push_back(static_cast<float>(action.high[bound]));
    bounds.half.push_back(0.5 * (bounds.high.back() - bounds.low.back()));
  }
  return bounds;
}

absl::StatusOr<std::vector<std::string>> ExportCheckpoint(const std::string& checkpoint,
                                                          const std::string& format,
                                                          const std::string& output) {
  DING_ASSIGN_OR_RETURN(const Exporter exporter, ExporterRegistry().Find(format));
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<Actor> actor, Actor::Load(checkpoint));
  const std::string named = absl::StrCat(ExporterRegistry().kind(), " '", format, "'");
  absl::StatusOr<std::vector<ExportedFile>> files =
      CallUser(named, [&] { return exporter(actor->model()); });
  if (files.ok() && files->empty()) {
    files = absl::InternalError(absl::StrCat(named, " returned no files, expected at least one"));
  }
  if (!files.ok()) {
    return Annotate(files.status(), absl::StrCat("checkpoint ", checkpoint, ", format ", format));
  }
  DING_ASSIGN_OR_RETURN(std::string golden, MakeGolden(actor.get()));
  files->push_back({"golden.json", std::move(golden)});
  DING_RETURN_IF_ERROR(CreateDirectories(output));
  std::vector<std::string> written;
  for (const ExportedFile& file : *files) {
    written.push_back(JoinPath(output, file.name));
    DING_RETURN_IF_ERROR(WriteFileAtomically(written.back(), file.content));
  }
  return written;
}

}  // namespace ding
