#include "ding_worker/data/tensor.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "absl/strings/str_cat.h"

namespace ding {

std::shared_ptr<std::byte> AllocateAligned(int64_t size) {
  constexpr size_t kAlignment = 64;
  const size_t rounded =
      (static_cast<size_t>(std::max<int64_t>(size, 1)) + kAlignment - 1) / kAlignment * kAlignment;
  auto* data = static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded));
  if (data == nullptr) return nullptr;
  return std::shared_ptr<std::byte>(data, [](std::byte* pointer) { std::free(pointer); });
}

Tensor Tensor::Zeros(DType dtype, Shape shape) {
  const std::optional<int64_t> size = CheckedByteSize(dtype, shape);
  DING_CHECK(size.has_value()) << "no tensor can be " << DTypeName(dtype) << ShapeString(shape);
  std::shared_ptr<std::byte> storage = AllocateAligned(*size);
  DING_CHECK(storage != nullptr) << "out of memory: " << *size << " bytes for " << DTypeName(dtype)
                                 << ShapeString(shape);
  std::memset(storage.get(), 0, static_cast<size_t>(*size));
  std::byte* const data = storage.get();
  return Tensor(dtype, std::move(shape), std::move(storage), data);
}

Tensor Tensor::Clone() const {
  Tensor copy = Zeros(dtype_, shape_);
  if (size_bytes() > 0) std::memcpy(copy.data_, data_, static_cast<size_t>(size_bytes()));
  return copy;
}

std::string Tensor::DebugString() const {
  return absl::StrCat(DTypeName(dtype_), ShapeString(shape_));
}

bool BitwiseEqual(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() && a.bytes() == b.bytes();
}

void TensorMap::Set(absl::string_view name, Tensor tensor) {
  if (Tensor* found = FindMutable(name)) {
    *found = std::move(tensor);
  } else {
    entries_.emplace_back(std::string(name), std::move(tensor));
  }
}

const Tensor* TensorMap::Find(absl::string_view name) const {
  for (const Entry& entry : entries_) {
    if (entry.first == name) return &entry.second;
  }
  return nullptr;
}

Tensor* TensorMap::FindMutable(absl::string_view name) {
  for (Entry& entry : entries_) {
    if (entry.first == name) return &entry.second;
  }
  return nullptr;
}

}  // namespace ding
