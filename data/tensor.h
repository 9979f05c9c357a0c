// A dense array in row-major order with shared, 64-byte aligned storage (Tensor), and an ordered
// map of named tensors (TensorMap).
//
// Ownership: copies share the elements; the storage lives as long as the last copy.
// Threads:   thread-compatible. While one thread writes through mutable_data(), no other thread
//            may use a copy.
//
// Example:
//   Tensor weights = Tensor::Zeros(DType::kFloat32, {128, 4});
//   weights.mutable_data<float>()[0] = 1;
#ifndef DING_WORKER_DATA_TENSOR_H_
#define DING_WORKER_DATA_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "ding_worker/base/check.h"
#include "ding_worker/data/spec.h"

namespace ding {

// Returns `size` uninitialized bytes, aligned to 64 bytes; null if there is not enough memory.
std::shared_ptr<std::byte> AllocateAligned(int64_t size);

class Tensor {
 public:
  // A float32 tensor of shape [0].
  Tensor() = default;
  // A tensor of elements at `data`, which `owner` keeps alive.
  Tensor(DType dtype, Shape shape, std::shared_ptr<void> owner, std::byte* data)
      : dtype_(dtype), shape_(std::move(shape)), owner_(std::move(owner)), data_(data) {}

  // Ends the program if an extent is negative, or if there is not enough memory.
  static Tensor Zeros(DType dtype, Shape shape);
  // Ends the program as Zeros(), and if `values` do not fill `shape`.
  template <typename T>
  static Tensor FromSpan(Shape shape, absl::Span<const T> values) {
    Tensor tensor = Zeros(kDTypeOf<T>, std::move(shape));
    DING_CHECK(tensor.num_elements() == static_cast<int64_t>(values.size()))
        << values.size() << " values for shape " << ShapeString(tensor.shape_);
    if (!values.empty()) std::memcpy(tensor.data_, values.data(), values.size() * sizeof(T));
    return tensor;
  }

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t num_elements() const { return NumElements(shape_); }
  int64_t size_bytes() const { return num_elements() * SizeOf(dtype_); }

  // Returns all elements, row-major. T must be the type in which dtype() is stored.
  template <typename T>
  absl::Span<const T> data() const {
    CheckStoredAs<T>();
    return {reinterpret_cast<const T*>(data_), static_cast<size_t>(num_elements())};
  }
  template <typename T>
  absl::Span<T> mutable_data() {
    CheckStoredAs<T>();
    return {reinterpret_cast<T*>(data_), static_cast<size_t>(num_elements())};
  }
  absl::string_view bytes() const {
    return {reinterpret_cast<const char*>(data_), static_cast<size_t>(size_bytes())};
  }
  std::byte* raw_data() const { return data_; }
  const std::shared_ptr<void>& owner() const { return owner_; }

  // Returns a copy with storage of its own.
  Tensor Clone() const;

  // "float32[128, 4]".
  std::string DebugString() const;

 private:
  template <typename T>
  void CheckStoredAs() const {
    DING_CHECK(StoredAs<T>(dtype_))
        << "a " << DTypeName(dtype_) << " tensor read as " << DTypeName(kDTypeOf<T>);
  }

  DType dtype_ = DType::kFloat32;
  Shape shape_ = {0};
  std::shared_ptr<void> owner_;
  std::byte* data_ = nullptr;
};

// Whether dtype, shape and bytes are equal; equal NaN bits are equal. For tests of determinism.
bool BitwiseEqual(const Tensor& a, const Tensor& b);

// Named tensors, in the order of insertion.
class TensorMap {
 public:
  using Entry = std::pair<std::string, Tensor>;

  // Replaces the tensor of that name in place, or appends it.
  void Set(absl::string_view name, Tensor tensor);
  // Returns null if there is none.
  const Tensor* Find(absl::string_view name) const;
  Tensor* FindMutable(absl::string_view name);

  bool empty() const { return entries_.empty(); }
  size_t size() const { return entries_.size(); }
  std::vector<Entry>::const_iterator begin() const { return entries_.begin(); }
  std::vector<Entry>::const_iterator end() const { return entries_.end(); }

 private:
  std::vector<Entry> entries_;
};

}  // namespace ding

#endif  // DING_WORKER_DATA_TENSOR_H_
