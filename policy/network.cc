#include "ding_worker/policy/network.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/finite.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

std::vector<std::string> FindProblems(absl::Span<const ParameterInfo> info,
                                      const StateReader& reader,
                                      const std::set<std::string>& others) {
  std::vector<std::string> problems;
  std::set<std::string> expected = others;
  for (const ParameterInfo& parameter : info) {
    expected.insert(parameter.name);
    const absl::StatusOr<TensorInfo> found = reader.Info(parameter.name);
    if (!found.ok()) {
      problems.push_back(
          absl::StrCat("'", parameter.name, "' ", ShapeString(parameter.shape), " is missing"));
    } else if (found->dtype != DType::kFloat32 || found->shape != parameter.shape) {
      problems.push_back(absl::StrCat("'", parameter.name, "' is ", DTypeName(found->dtype),
                                      ShapeString(found->shape), ", expected float32",
                                      ShapeString(parameter.shape)));
    }
  }
  for (const std::string& name : reader.Names()) {
    if (expected.count(name) == 0) problems.push_back(absl::StrCat("'", name, "' is unknown"));
  }
  return problems;
}

}  // namespace

absl::Status CheckSequences(const Sequences& sequences, int64_t state_size,
                            absl::Span<const float> states) {
  const int64_t rows = sequences.rows.rows();
  const int64_t length = sequences.length;
  if (length < 1 || rows % length != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("sequences: ", rows, " rows are no sequences of length ", length,
                     "; the length must be at least 1 and divide the number of rows"));
  }
  if (sequences.burn_in < 0 || sequences.burn_in >= length) {
    return absl::InvalidArgumentError(absl::StrCat("sequences: burn_in is ", sequences.burn_in,
                                                   " in sequences of length ", length,
                                                   "; it must be in 0..", length - 1));
  }
  const int64_t count = rows / length;
  const auto given = static_cast<int64_t>(sequences.state.size());
  if (given != 0 && given != count * state_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("sequences: ", given, " floats of state for ", count, " sequences of ",
                     state_size, " each; expected ", count * state_size, " or none"));
  }
  const auto marks = static_cast<int64_t>(sequences.is_first.size());
  if (marks != 0 && marks != rows) {
    return absl::InvalidArgumentError(absl::StrCat("sequences: is_first has ", marks,
                                                   " elements for ", rows,
                                                   " rows; expected one for each row, or none"));
  }
  const auto room = static_cast<int64_t>(states.size());
  if (room != 0 && room != rows * state_size && room != count * state_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("sequences: room for ", room, " floats of states after the rows; expected ",
                     rows * state_size, " (after each row), ", count * state_size,
                     " (after the last row of each sequence) or none"));
  }
  return absl::OkStatus();
}

absl::Status SaveParameters(absl::Span<const ParameterInfo> info, absl::Span<const float> values,
                            absl::string_view scope, StateWriter* writer) {
  for (const ParameterInfo& parameter : info) {
    const absl::Span<const float> of_parameter = values.subspan(
        static_cast<size_t>(parameter.offset), static_cast<size_t>(NumElements(parameter.shape)));
    if (!AllFinite(of_parameter)) {
      return absl::InternalError(absl::StrCat(
          "'", scope, "/", parameter.name,
          "' is not finite, expected finite values to save: "
          "either the network has diverged, or its GPU is lost; earlier checkpoints are intact"));
    }
    const absl::string_view bytes(reinterpret_cast<const char*>(of_parameter.data()),
                                  of_parameter.size() * sizeof(float));
    DING_RETURN_IF_ERROR(writer->Write(absl::StrCat(scope, "/", parameter.name), DType::kFloat32,
                                       parameter.shape, {bytes}));
  }
  return absl::OkStatus();
}

absl::Status LoadParameters(absl::Span<const ParameterInfo> info, absl::string_view scope,
                            StateReader* reader, absl::Span<float> values,
                            const std::set<std::string>& others) {
  ScopedStateReader scoped(reader, scope);
  const std::string unfit = absl::StrCat("the saved '", scope, "' does not fit");
  std::vector<std::string> problems = FindProblems(info, scoped, others);
  DING_RETURN_IF_ERROR(ProblemsToStatus(problems, unfit));
  std::vector<float> loaded(values.begin(), values.end());
  for (const ParameterInfo& parameter : info) {
    const absl::Span<float> target = absl::MakeSpan(loaded).subspan(
        static_cast<size_t>(parameter.offset), static_cast<size_t>(NumElements(parameter.shape)));
    DING_RETURN_IF_ERROR(scoped.ReadSpan<float>(parameter.name, target));
    if (!AllFinite(target)) {
      problems.push_back(absl::StrCat("'", parameter.name, "' is not finite"));
    }
  }
  DING_RETURN_IF_ERROR(ProblemsToStatus(problems, unfit));
  absl::c_copy(loaded, values.begin());
  return absl::OkStatus();
}

absl::Status LoadEmptyModel(StateReader* reader) {
  return LoadParameters({}, kModelScope, reader, {});
}

}  // namespace ding
