#include "ding_worker/data/state_wire.h"

#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/tensor.h"

namespace ding {

absl::StatusOr<EncodedBatch> EncodeState(const std::function<absl::Status(StateWriter*)>& save) {
  StateDict state;
  DING_RETURN_IF_ERROR(save(&state));
  std::vector<FieldSpec> fields;
  for (const auto& [name, tensor] : state.tensors()) {
    FieldSpec field;
    field.name = name;
    field.dtype = tensor.dtype();
    field.shape = tensor.shape();
    fields.push_back(std::move(field));
  }
  DING_ASSIGN_OR_RETURN(SpecPtr spec, MakeSpec(std::move(fields)));
  DING_ASSIGN_OR_RETURN(BatchBuilder row, BatchBuilder::Create(std::move(spec), 1));
  int index = 0;
  for (const auto& [name, tensor] : state.tensors()) {
    std::memcpy(row.view().raw_column(index++), tensor.raw_data(),
                static_cast<size_t>(tensor.size_bytes()));
  }
  return EncodedBatch(std::move(row).Seal(1));
}

absl::StatusOr<std::shared_ptr<StateReader>> DecodeState(absl::string_view bytes,
                                                         absl::string_view source) {
  DING_ASSIGN_OR_RETURN(const Batch row, DecodeBatch(bytes));
  if (row.rows() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": a state is one row, found ", row.rows()));
  }
  TensorMap tensors;
  for (int i = 0; i < row.spec().size(); ++i) {
    const Tensor column = row.tensor(i);
    const FieldSpec& field = row.spec().field(i);
    tensors.Set(field.name, Tensor(field.dtype, field.shape, column.owner(), column.raw_data()));
  }
  return std::make_shared<StateDict>(std::move(tensors), source);
}

}  // namespace ding
