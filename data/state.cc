#include "ding_worker/data/state.h"

#include <array>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"

namespace ding {
namespace {

template <typename T>
absl::string_view BytesOf(const T& value) {
  return absl::string_view(reinterpret_cast<const char*>(&value), sizeof(value));
}

}  // namespace

absl::Status StateWriter::WriteInPieces(absl::string_view name, DType dtype,
                                        absl::Span<const int64_t> shape, Pieces pieces) {
  std::string bytes;
  if (needs_values(dtype)) {
    DING_RETURN_IF_ERROR(pieces([&bytes](absl::string_view piece) {
      absl::StrAppend(&bytes, piece);
      return absl::OkStatus();
    }));
    return Write(name, dtype, shape, {bytes});
  }
  // As many zeros, most of them the same ones.
  constexpr int64_t kZeros = 1 << 16;
  bytes.resize(kZeros);
  std::vector<absl::string_view> parts;
  for (int64_t left = NumElements(shape) * SizeOf(dtype); left > 0; left -= kZeros) {
    parts.push_back(absl::string_view(bytes).substr(0, static_cast<size_t>(left)));
  }
  return Write(name, dtype, shape, parts);
}

absl::Status StateWriter::WriteTensor(absl::string_view name, const Tensor& tensor) {
  return Write(name, tensor.dtype(), tensor.shape(), {tensor.bytes()});
}

absl::Status StateWriter::WriteInt(absl::string_view name, int64_t value) {
  return Write(name, DType::kInt64, {}, {BytesOf(value)});
}

absl::Status StateWriter::WriteDouble(absl::string_view name, double value) {
  return Write(name, DType::kFloat64, {}, {BytesOf(value)});
}

absl::Status StateWriter::WriteString(absl::string_view name, absl::string_view value) {
  return Write(name, DType::kUint8, {static_cast<int64_t>(value.size())}, {value});
}

absl::Status StateWriter::WriteRng(absl::string_view name, const Rng& rng) {
  const Rng::State state = rng.state();
  return Write(name, DType::kInt64, {static_cast<int64_t>(state.size())}, {BytesOf(state)});
}

absl::Status StateReader::CheckInfo(absl::string_view name, DType dtype,
                                    int64_t num_elements) const {
  DING_ASSIGN_OR_RETURN(const TensorInfo info, Info(name));
  if (info.dtype == dtype && NumElements(info.shape) == num_elements) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "saved '", name, "' is ", DTypeName(info.dtype), ShapeString(info.shape), ", expected ",
      num_elements, " element", num_elements == 1 ? "" : "s", " of ", DTypeName(dtype)));
}

absl::Status StateReader::ReadInPieces(absl::string_view name, int64_t piece_bytes,
                                       absl::FunctionRef<void(absl::string_view)> take) {
  DING_ASSIGN_OR_RETURN(const TensorInfo info, Info(name));
  std::string bytes(static_cast<size_t>(NumElements(info.shape) * SizeOf(info.dtype)), '\0');
  DING_RETURN_IF_ERROR(Read(name, {absl::MakeSpan(bytes)}));
  for (size_t at = 0; at < bytes.size(); at += static_cast<size_t>(piece_bytes)) {
    take(absl::string_view(bytes).substr(at, static_cast<size_t>(piece_bytes)));
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> StateReader::ReadTensor(absl::string_view name) {
  DING_ASSIGN_OR_RETURN(const TensorInfo info, Info(name));
  const int64_t size = NumElements(info.shape) * SizeOf(info.dtype);
  std::shared_ptr<std::byte> storage = AllocateAligned(size);
  if (storage == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("out of memory: ", size, " bytes for saved '", name, "'"));
  }
  std::byte* const data = storage.get();
  DING_RETURN_IF_ERROR(
      Read(name, {absl::Span<char>(reinterpret_cast<char*>(data), static_cast<size_t>(size))}));
  return Tensor(info.dtype, info.shape, std::move(storage), data);
}

absl::StatusOr<int64_t> StateReader::ReadInt(absl::string_view name) {
  int64_t value = 0;
  DING_RETURN_IF_ERROR(ReadSpan<int64_t>(name, absl::MakeSpan(&value, 1)));
  return value;
}

absl::StatusOr<int64_t> StateReader::ReadCount(absl::string_view name, int64_t least) {
  int64_t value = 0;
  DING_RETURN_IF_ERROR(ReadCounts(name, absl::MakeSpan(&value, 1), least));
  return value;
}

absl::Status StateReader::ReadCounts(absl::string_view name, absl::Span<int64_t> values,
                                     int64_t least) {
  DING_RETURN_IF_ERROR(ReadSpan<int64_t>(name, values));
  for (const int64_t value : values) {
    if (value >= least && value <= kMaxSavedCount) continue;
    return absl::InvalidArgumentError(absl::StrCat("the saved '", name, "' is ", value,
                                                   ", expected ", least, " to ", kMaxSavedCount));
  }
  return absl::OkStatus();
}

absl::StatusOr<double> StateReader::ReadDouble(absl::string_view name) {
  double value = 0;
  DING_RETURN_IF_ERROR(ReadSpan<double>(name, absl::MakeSpan(&value, 1)));
  return value;
}

absl::StatusOr<std::string> StateReader::ReadString(absl::string_view name) {
  DING_ASSIGN_OR_RETURN(const TensorInfo info, Info(name));
  std::string value(static_cast<size_t>(NumElements(info.shape)), '\0');
  DING_RETURN_IF_ERROR(CheckInfo(name, DType::kUint8, static_cast<int64_t>(value.size())));
  DING_RETURN_IF_ERROR(Read(name, {absl::MakeSpan(value)}));
  return value;
}

absl::Status StateReader::ReadRng(absl::string_view name, Rng* rng) {
  std::array<int64_t, std::tuple_size<Rng::State>::value> words;
  DING_RETURN_IF_ERROR(ReadSpan<int64_t>(name, absl::MakeSpan(words)));
  Rng::State state;
  std::memcpy(state.data(), words.data(), sizeof(state));
  rng->set_state(state);
  return absl::OkStatus();
}

ScopedStateWriter::ScopedStateWriter(StateWriter* inner, absl::string_view scope)
    : inner_(inner), prefix_(absl::StrCat(scope, "/")) {}

absl::Status ScopedStateWriter::Write(absl::string_view name, DType dtype,
                                      absl::Span<const int64_t> shape,
                                      absl::Span<const absl::string_view> parts) {
  return inner_->Write(absl::StrCat(prefix_, name), dtype, shape, parts);
}

absl::Status ScopedStateWriter::WriteInPieces(absl::string_view name, DType dtype,
                                              absl::Span<const int64_t> shape, Pieces pieces) {
  return inner_->WriteInPieces(absl::StrCat(prefix_, name), dtype, shape, pieces);
}

ScopedStateReader::ScopedStateReader(StateReader* inner, absl::string_view scope)
    : inner_(inner), prefix_(absl::StrCat(scope, "/")) {}

absl::StatusOr<TensorInfo> ScopedStateReader::Info(absl::string_view name) const {
  return inner_->Info(absl::StrCat(prefix_, name));
}

absl::Status ScopedStateReader::Read(absl::string_view name,
                                     absl::Span<const absl::Span<char>> parts) {
  return inner_->Read(absl::StrCat(prefix_, name), parts);
}

absl::Status ScopedStateReader::ReadInPieces(absl::string_view name, int64_t piece_bytes,
                                             absl::FunctionRef<void(absl::string_view)> take) {
  return inner_->ReadInPieces(absl::StrCat(prefix_, name), piece_bytes, take);
}

std::vector<std::string> ScopedStateReader::Names() const {
  std::vector<std::string> names;
  for (const std::string& name : inner_->Names()) {
    if (absl::StartsWith(name, prefix_)) names.push_back(name.substr(prefix_.size()));
  }
  return names;
}

absl::Status StateDict::Write(absl::string_view name, DType dtype, absl::Span<const int64_t> shape,
                              absl::Span<const absl::string_view> parts) {
  if (tensors_.Find(name) != nullptr) {
    return absl::AlreadyExistsError(absl::StrCat("'", name, "' is written twice to ", source_));
  }
  int64_t size = 0;
  for (const absl::string_view part : parts) size += static_cast<int64_t>(part.size());
  if (CheckedByteSize(dtype, shape) != size) {
    return absl::InvalidArgumentError(absl::StrCat("'", name, "', ", DTypeName(dtype),
                                                   ShapeString(shape), ", is written to ", source_,
                                                   " with ", size, " bytes"));
  }
  Tensor tensor = Tensor::Zeros(dtype, Shape(shape.begin(), shape.end()));
  std::byte* to = tensor.raw_data();
  for (const absl::string_view part : parts) {
    if (!part.empty()) std::memcpy(to, part.data(), part.size());
    to += part.size();
  }
  tensors_.Set(name, std::move(tensor));
  return absl::OkStatus();
}

absl::StatusOr<TensorInfo> StateDict::Info(absl::string_view name) const {
  const Tensor* const tensor = tensors_.Find(name);
  if (tensor == nullptr) {
    return absl::NotFoundError(absl::StrCat(source_, " has no '", name, "'"));
  }
  return TensorInfo{tensor->dtype(), tensor->shape()};
}

absl::Status StateDict::Read(absl::string_view name, absl::Span<const absl::Span<char>> parts) {
  const Tensor* const tensor = tensors_.Find(name);
  if (tensor == nullptr) {
    return absl::NotFoundError(absl::StrCat(source_, " has no '", name, "'"));
  }
  size_t asked = 0;
  for (const absl::Span<char> part : parts) asked += part.size();
  if (asked != tensor->bytes().size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", name, "' in ", source_, " has ", tensor->bytes().size(), " bytes, expected ", asked));
  }
  const char* from = tensor->bytes().data();
  for (const absl::Span<char> part : parts) {
    if (!part.empty()) std::memcpy(part.data(), from, part.size());
    from += part.size();
  }
  return absl::OkStatus();
}

std::vector<std::string> StateDict::Names() const {
  std::vector<std::string> names;
  for (const TensorMap::Entry& entry : tensors_) names.push_back(entry.first);
  return names;
}

absl::Status StateDict::SaveState(StateWriter* writer) const {
  for (const auto& [name, tensor] : tensors_) {
    DING_RETURN_IF_ERROR(writer->WriteTensor(name, tensor));
  }
  return absl::OkStatus();
}

absl::StatusOr<StateSnapshot> CopyState(const std::function<absl::Status(StateWriter*)>& save) {
  const auto copy = std::make_shared<StateDict>();
  DING_RETURN_IF_ERROR(save(copy.get()));
  return StateSnapshot([copy](StateWriter* writer) { return copy->SaveState(writer); });
}

}  // namespace ding
