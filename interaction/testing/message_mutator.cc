#include "ding_worker/interaction/testing/message_mutator.h"

#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include "ding_worker/base/rng.h"
#include "google/protobuf/descriptor.h"

namespace ding {
namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

template <typename T>
T MutateNumber(T value, Rng* rng) {
  switch (rng->UniformInt(8)) {
    case 0:
      return 0;
    case 1:
      return static_cast<T>(-1);
    case 2:
      return std::numeric_limits<T>::max();
    case 3:
      return std::numeric_limits<T>::lowest();
    case 4:
      return std::is_floating_point_v<T> ? std::numeric_limits<T>::quiet_NaN() : T{1};
    case 5:
      return static_cast<T>(rng->UniformInt(uint64_t{1} << rng->UniformInt(63)));
    case 6:
      // Signed numbers are incremented as unsigned ones, which may wrap.
      if constexpr (std::is_integral_v<T>) {
        return static_cast<T>(static_cast<std::make_unsigned_t<T>>(value) + 1);
      }
      return value + 1;
    default:
      if constexpr (std::is_integral_v<T>) {
        return static_cast<T>(static_cast<std::make_unsigned_t<T>>(value) - 1);
      }
      return value - 1;
  }
}

int RandomEnumNumber(const EnumDescriptor* type, Rng* rng) {
  return type->value(static_cast<int>(rng->UniformInt(static_cast<uint64_t>(type->value_count()))))
      ->number();
}

// One existing value of a field. A value of a repeated field is selected by its index.
class Value {
 public:
  Value(const FieldDescriptor* field, int index, Message* message)
      : field_(field), index_(index), message_(message), reflection_(message->GetReflection()) {}

  void Mutate(Mutator* mutator);

 private:
  bool repeated() const { return field_->is_repeated(); }

  const FieldDescriptor* const field_;
  const int index_;
  Message* const message_;
  const Reflection* const reflection_;
};

#define DING_MUTATE_NUMBER(TYPE, Name)                                                      \
  case FieldDescriptor::CPPTYPE_##TYPE:                                                     \
    if (repeated()) {                                                                       \
      reflection_->SetRepeated##Name(                                                       \
          message_, field_, index_,                                                         \
          MutateNumber(reflection_->GetRepeated##Name(*message_, field_, index_), rng));    \
    } else {                                                                                \
      reflection_->Set##Name(message_, field_,                                              \
                             MutateNumber(reflection_->Get##Name(*message_, field_), rng)); \
    }                                                                                       \
    break

void Value::Mutate(Mutator* mutator) {
  Rng* const rng = mutator->rng();
  switch (field_->cpp_type()) {
    DING_MUTATE_NUMBER(INT32, Int32);
    DING_MUTATE_NUMBER(INT64, Int64);
    DING_MUTATE_NUMBER(UINT32, UInt32);
    DING_MUTATE_NUMBER(UINT64, UInt64);
    DING_MUTATE_NUMBER(FLOAT, Float);
    DING_MUTATE_NUMBER(DOUBLE, Double);
    case FieldDescriptor::CPPTYPE_BOOL:
      repeated() ? reflection_->SetRepeatedBool(message_, field_, index_, mutator->Coin())
                 : reflection_->SetBool(message_, field_, mutator->Coin());
      break;
    case FieldDescriptor::CPPTYPE_ENUM: {
      const int number = RandomEnumNumber(field_->enum_type(), rng);
      repeated() ? reflection_->SetRepeatedEnumValue(message_, field_, index_, number)
                 : reflection_->SetEnumValue(message_, field_, number);
      break;
    }
    case FieldDescriptor::CPPTYPE_STRING:
      if (repeated()) {
        reflection_->SetRepeatedString(
            message_, field_, index_,
            mutator->Mutate(reflection_->GetRepeatedString(*message_, field_, index_)));
      } else {
        reflection_->SetString(message_, field_,
                               mutator->Mutate(reflection_->GetString(*message_, field_)));
      }
      break;
    case FieldDescriptor::CPPTYPE_MESSAGE:
      MutateMessage(mutator, repeated()
                                 ? reflection_->MutableRepeatedMessage(message_, field_, index_)
                                 : reflection_->MutableMessage(message_, field_));
      break;
  }
}

#undef DING_MUTATE_NUMBER

void AddDefault(const FieldDescriptor* field, Message* message) {
  const Reflection* const reflection = message->GetReflection();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection->AddInt32(message, field, 0);
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection->AddInt64(message, field, 0);
    case FieldDescriptor::CPPTYPE_UINT32:
      return reflection->AddUInt32(message, field, 0);
    case FieldDescriptor::CPPTYPE_UINT64:
      return reflection->AddUInt64(message, field, 0);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return reflection->AddFloat(message, field, 0);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection->AddDouble(message, field, 0);
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection->AddBool(message, field, false);
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection->AddEnumValue(message, field, field->enum_type()->value(0)->number());
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection->AddString(message, field, "");
    case FieldDescriptor::CPPTYPE_MESSAGE:
      reflection->AddMessage(message, field);
  }
}

void MutateRepeated(Mutator* mutator, const FieldDescriptor* field, Message* message) {
  const Reflection* const reflection = message->GetReflection();
  Rng* const rng = mutator->rng();
  if (reflection->FieldSize(*message, field) > 0 && mutator->Coin()) {
    mutator->Coin() ? reflection->RemoveLast(message, field)
                    : reflection->ClearField(message, field);
  } else if (mutator->Coin()) {
    AddDefault(field, message);
  }
  const int size = reflection->FieldSize(*message, field);
  if (size == 0) return;
  const int index = static_cast<int>(rng->UniformInt(static_cast<uint64_t>(size)));
  Value(field, index, message).Mutate(mutator);
}

}  // namespace

void MutateMessage(Mutator* mutator, Message* message) {
  const Reflection* const reflection = message->GetReflection();
  const int fields = message->GetDescriptor()->field_count();
  if (fields == 0) return;
  for (uint64_t left = 1 + mutator->rng()->UniformInt(3); left > 0; --left) {
    const FieldDescriptor* field = message->GetDescriptor()->field(
        static_cast<int>(mutator->rng()->UniformInt(static_cast<uint64_t>(fields))));
    // Only the field of a oneof that is set can be changed, since a message has one kind.
    const google::protobuf::OneofDescriptor* const oneof = field->containing_oneof();
    if (oneof != nullptr && reflection->HasOneof(*message, oneof)) {
      field = reflection->GetOneofFieldDescriptor(*message, oneof);
    }
    if (field->is_repeated()) {
      MutateRepeated(mutator, field, message);
    } else if (oneof == nullptr && reflection->HasField(*message, field) &&
               mutator->rng()->UniformInt(4) == 0) {
      reflection->ClearField(message, field);
    } else if (field->containing_oneof() == nullptr || reflection->HasField(*message, field)) {
      // The kind of the message stays the same: it is the caller's job to try other kinds.
      Value(field, 0, message).Mutate(mutator);
    }
  }
}

}  // namespace ding
