#include "ding_worker/python/extension/arrays.h"

#include <pybind11/numpy.h>

#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace ding {
namespace {

namespace py = pybind11;
using Npy = py::detail::npy_api;

const Npy& Numpy() {
  static const Npy& api = Npy::get();
  return api;
}

const py::detail::PyArray_Proxy& Proxy(py::handle array) {
  return *py::detail::array_proxy(array.ptr());
}

// A new reference.
PyObject* DescrOf(DType dtype) {
  static const std::array<PyObject*, 6> descrs = [] {
    std::array<PyObject*, 6> made;
    const std::array<int, 6> numbers = {Npy::NPY_BOOL_,  Npy::NPY_UINT8_, Npy::NPY_INT32_,
                                        Npy::NPY_INT64_, Npy::NPY_FLOAT_, Npy::NPY_DOUBLE_};
    for (size_t i = 0; i < made.size(); ++i) made[i] = Numpy().PyArray_DescrFromType_(numbers[i]);
    return made;
  }();
  PyObject* const descr = descrs[static_cast<size_t>(dtype)];
  Py_INCREF(descr);
  return descr;
}

bool HasShape(absl::Span<const int64_t> found, const FieldSpec& field, int64_t rows) {
  if (rows >= 0) {
    if (found.empty() || found[0] != rows) return false;
    found.remove_prefix(1);
  }
  return found == absl::MakeConstSpan(field.shape);
}

[[noreturn]] void Raise(PyObject* type, const std::string& text) {
  PyErr_SetString(type, text.c_str());
  throw py::error_already_set();
}

template <typename T>
void Store(T value, std::byte* to) {
  std::memcpy(to, &value, sizeof(value));
}

// Whether `value` is a Python number that the scalar `field` takes, which is then at `to`.
bool ReadNumber(py::handle value, const FieldSpec& field, std::byte* to) {
  PyObject* const object = value.ptr();
  if (!field.shape.empty()) return false;
  if (PyBool_Check(object)) {
    if (field.dtype != DType::kBool) return false;
    Store<uint8_t>(object == Py_True, to);
    return true;
  }
  if (field.dtype == DType::kFloat32 && (PyFloat_Check(object) || PyLong_CheckExact(object))) {
    const double number = PyFloat_AsDouble(object);
    if (number == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
    Store(static_cast<float>(number), to);
    return true;
  }
  if (field.dtype == DType::kInt64 && PyLong_CheckExact(object)) {
    const long long number = PyLong_AsLongLong(object);
    if (number == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
    Store(static_cast<int64_t>(number), to);
    return true;
  }
  return false;
}

}  // namespace

std::string ValuePlace::Text() const {
  return row < 0 ? absl::StrCat("'", name, "'")
                 : absl::StrCat("transition ", row, ": '", name, "'");
}

void ThrowIfError(const absl::Status& status) {
  if (status.ok()) return;
  PyObject* type = PyExc_RuntimeError;
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kDataLoss:
      type = PyExc_ValueError;
      break;
    case absl::StatusCode::kNotFound:
      type = PyExc_FileNotFoundError;
      break;
    case absl::StatusCode::kAlreadyExists:
      type = PyExc_FileExistsError;
      break;
    case absl::StatusCode::kResourceExhausted:
      type = PyExc_MemoryError;
      break;
    case absl::StatusCode::kUnimplemented:
      type = PyExc_NotImplementedError;
      break;
    default:
      break;
  }
  Raise(type, std::string(status.message()));
}

py::object AsArray(py::handle value, const ValuePlace& place) {
  py::object array;
  if (Numpy().PyArray_Check_(value.ptr())) {
    array = py::reinterpret_borrow<py::object>(value);
  } else {
    array = py::reinterpret_steal<py::object>(
        Numpy().PyArray_FromAny_(value.ptr(), nullptr, 0, 0, Npy::NPY_ARRAY_ENSUREARRAY_, nullptr));
    if (!array) {
      const py::error_already_set error;
      Raise(PyExc_ValueError, absl::StrCat(place.Text(), " is no array: ", error.what()));
    }
  }
  const int number = py::detail::array_descriptor_proxy(Proxy(array).descr)->type_num;
  if (number == Npy::NPY_OBJECT_) {
    Raise(
        PyExc_TypeError,
        absl::StrCat(place.Text(), " is ", ArrayText(array), " (a ", Py_TYPE(value.ptr())->tp_name,
                     "), expected numbers: bool, uint8, int32, int64, float32 or "
                     "float64"));
  }
  return array;
}

absl::Span<const int64_t> ArrayShape(py::handle array) {
  const py::detail::PyArray_Proxy& proxy = Proxy(array);
  static_assert(sizeof(*proxy.dimensions) == sizeof(int64_t));
  return {reinterpret_cast<const int64_t*>(proxy.dimensions), static_cast<size_t>(proxy.nd)};
}

std::optional<DType> ArrayDType(py::handle array) {
  const auto* descr = py::detail::array_descriptor_proxy(Proxy(array).descr);
  if (descr->byteorder == '>') return std::nullopt;
  switch (descr->type_num) {
    case Npy::NPY_BOOL_:
      return DType::kBool;
    case Npy::NPY_UBYTE_:
      return DType::kUint8;
    case Npy::NPY_INT_:
      return DType::kInt32;
    case Npy::NPY_LONG_:
    case Npy::NPY_LONGLONG_:
      return DType::kInt64;
    case Npy::NPY_FLOAT_:
      return DType::kFloat32;
    case Npy::NPY_DOUBLE_:
      return DType::kFloat64;
    default:
      return std::nullopt;
  }
}

std::string ArrayText(py::handle array) {
  return absl::StrCat(std::string(py::str(array.attr("dtype"))), ShapeString(ArrayShape(array)));
}

const std::byte* ReadArray(py::handle value, const FieldSpec& field, int64_t rows,
                           const ValuePlace& place, py::object* keep) {
  py::object array = AsArray(value, place);
  const std::optional<DType> found = ArrayDType(array);
  const bool converts = found == DType::kFloat64 && field.dtype == DType::kFloat32;
  if ((found != field.dtype && !converts) || !HasShape(ArrayShape(array), field, rows)) {
    Shape expected = field.shape;
    if (rows >= 0) expected.insert(expected.begin(), rows);
    Raise(PyExc_ValueError, absl::StrCat(place.Text(), " is ", ArrayText(array), ", expected ",
                                         DTypeName(field.dtype), ShapeString(expected)));
  }
  constexpr int kDense = Npy::NPY_ARRAY_C_CONTIGUOUS_ | Npy::NPY_ARRAY_ALIGNED_;
  if (converts || (Proxy(array).flags & kDense) != kDense) {
    array = py::reinterpret_steal<py::object>(Numpy().PyArray_FromAny_(
        array.ptr(), DescrOf(field.dtype), 0, 0, kDense | Npy::NPY_ARRAY_FORCECAST_, nullptr));
    if (!array) throw py::error_already_set();
  }
  const auto* const data = reinterpret_cast<const std::byte*>(Proxy(array).data);
  *keep = std::move(array);
  return data;
}

void ReadRow(py::handle value, const FieldSpec& field, const ValuePlace& place, std::byte* to) {
  if (ReadNumber(value, field, to)) return;
  py::object keep;
  const std::byte* const from = ReadArray(value, field, /*rows=*/-1, place, &keep);
  std::memcpy(to, from, static_cast<size_t>(field.row_bytes()));
}

py::object MakeArray(DType dtype, absl::Span<const int64_t> shape, const std::byte* data,
                     py::handle owner) {
  const auto* const dimensions = reinterpret_cast<const Py_intptr_t*>(shape.data());
  constexpr int kOurs =
      Npy::NPY_ARRAY_C_CONTIGUOUS_ | Npy::NPY_ARRAY_ALIGNED_ | Npy::NPY_ARRAY_WRITEABLE_;
  const bool copies = !owner;
  auto array = py::reinterpret_steal<py::object>(Numpy().PyArray_NewFromDescr_(
      Numpy().PyArray_Type_, DescrOf(dtype), static_cast<int>(shape.size()), dimensions, nullptr,
      copies ? nullptr : const_cast<std::byte*>(data), copies ? 0 : kOurs, nullptr));
  if (!array) throw py::error_already_set();
  if (copies) {
    const int64_t bytes = NumElements(shape) * SizeOf(dtype);
    if (bytes > 0) std::memcpy(Proxy(array).data, data, static_cast<size_t>(bytes));
  } else if (Numpy().PyArray_SetBaseObject_(array.ptr(), owner.inc_ref().ptr()) != 0) {
    throw py::error_already_set();
  }
  return array;
}

void OverwriteArray(py::handle array, const std::byte* data) {
  const int64_t bytes = NumElements(ArrayShape(array)) * SizeOf(*ArrayDType(array));
  std::memcpy(Proxy(array).data, data, static_cast<size_t>(bytes));
}

py::object MakeObjectArray(absl::Span<const py::object> values) {
  const auto size = static_cast<Py_intptr_t>(values.size());
  auto array = py::reinterpret_steal<py::object>(Numpy().PyArray_NewFromDescr_(
      Numpy().PyArray_Type_, Numpy().PyArray_DescrFromType_(Npy::NPY_OBJECT_), 1, &size, nullptr,
      nullptr, 0, nullptr));
  if (!array) throw py::error_already_set();
  auto* const elements = reinterpret_cast<PyObject**>(Proxy(array).data);
  for (size_t i = 0; i < values.size(); ++i) {
    Py_XDECREF(elements[i]);  // numpy begins with null or None
    elements[i] = values[i].inc_ref().ptr();
  }
  return array;
}

py::object BatchOwner(Batch batch) {
  return py::capsule(new Batch(std::move(batch)),
                     [](void* held) { delete static_cast<Batch*>(held); });
}

py::dict StateToDict(const StateDict& state) {
  py::dict dict;
  for (const auto& [name, tensor] : state.tensors()) {
    dict[py::str(name)] = MakeArray(tensor.dtype(), tensor.shape(), tensor.raw_data(), {});
  }
  return dict;
}

StateDict StateOfDict(const py::dict& dict, std::vector<py::object>* keep) {
  TensorMap tensors;
  for (const auto& [key, value] : dict) {
    const std::string name = py::str(key);
    const py::object array = AsArray(value, {name});
    FieldSpec field;
    const absl::Span<const int64_t> shape = ArrayShape(array);
    field.shape.assign(shape.begin(), shape.end());
    field.dtype = ArrayDType(array).value_or(DType::kFloat32);
    keep->emplace_back();
    const std::byte* const data = ReadArray(array, field, -1, {name}, &keep->back());
    // LoadState() only reads it.
    tensors.Set(name, Tensor(field.dtype, field.shape, nullptr, const_cast<std::byte*>(data)));
  }
  return StateDict(std::move(tensors), "state_dict");
}

}  // namespace ding
