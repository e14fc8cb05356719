// SPDX-License-Identifier: Apache-2.0
// One pass over simdjson's on-demand parser, which returns keys and values in the order of the text
// and does not validate skipped parts. This code therefore reads everything and checks what
// simdjson leaves to its caller: repeated keys, the form of numbers, text after the end.
#include "messages/json_reader.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/timestamp.pb.h>
#include <google/protobuf/util/time_util.h>
#include <simdjson.h>

#include <algorithm>
#include <bitset>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/quotes.h"
#include "messages/json_schema.h"
#include "messages/yaml_message.h"
#include "text/json_number.h"

namespace forestall::messages {
namespace {

namespace ondemand = simdjson::ondemand;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::Timestamp;

static_assert(JsonReader::kPadding >= simdjson::SIMDJSON_PADDING);

// The kind of a token by its first character, which is all that simdjson checks.
std::string_view kind_of(char first) {
  switch (first) {
    case '{': return "an object";
    case '[': return "a list";
    case '"': return "a string";
    case 't':
    case 'f': return "a boolean";
    case 'n': return "null";
    default: return first == '-' || (first >= '0' && first <= '9') ? "a number" : "invalid JSON";
  }
}

std::string_view trimmed(std::string_view token) {
  const auto end = token.find_last_not_of(" \t\r\n");
  return end == token.npos ? std::string_view() : token.substr(0, end + 1);
}

}  // namespace

struct JsonReader::Buffers {
  ondemand::parser parser;
  std::size_t error_offset = 0;
};

// One read. Functions return whether they succeeded; the first error is kept, with its path.
class JsonReader::Parser {
 public:
  Parser(std::string_view json, Buffers& buffers) : json_(json), buffers_(buffers) {
    path_.reserve(16);
  }

  Result<void> read(Message& message) {
    message.Clear();
    if (document(message)) return {};
    return error(path() + problem_);
  }

 private:
  struct PathStep {
    std::string_view key;  // empty: an item of the list of the previous step
    std::size_t index = 0;
  };

  bool document(Message& message) {
    const auto iterated =
        buffers_.parser.iterate(json_.data(), json_.size(), json_.size() + kPadding).get(document_);
    if (iterated != simdjson::SUCCESS) return broken(iterated, nullptr);
    std::string_view token;
    if (const auto failed = document_.raw_json_token().get(token)) return broken(failed);
    if (!token.starts_with('{')) return expected("an object", token);
    ondemand::object object;
    if (const auto failed = document_.get_object().get(object)) return broken(failed);
    if (!members(object, message, json_message(*message.GetDescriptor()))) return false;
    const char* rest = nullptr;
    if (document_.current_location().get(rest) == simdjson::SUCCESS) {
      return fail(rest, "text after the end of the object");
    }
    return true;
  }

  bool members(ondemand::object& object, Message& message, const JsonMessage& type) {
    const Reflection* const outer = std::exchange(reflection_, message.GetReflection());
    std::bitset<JsonMessage::kFieldsMax> seen;
    std::size_t next = 0;
    for (auto member : object) {
      ondemand::field field;
      if (const auto failed = std::move(member).get(field)) return broken(failed);
      const char* const at = field.key().raw() - 1;
      std::string_view key;
      if (const auto failed = field.unescaped_key().get(key)) return broken(failed);
      const auto found = type.find(key, next);
      if (!found) {
        return fail(at, "unknown key " + in_quotes(key) + allowed_words(key, type.keys));
      }
      if (seen.test(*found)) return fail(at, "key " + in_quotes(key) + " occurs twice");
      seen.set(*found);
      next = *found + 1;
      path_.push_back({type.keys[*found], 0});
      ondemand::value value = field.value();
      if (!member_value(value, message, type.fields[*found])) return false;
      path_.pop_back();
    }
    reflection_ = outer;
    return true;
  }

  bool member_value(ondemand::value& value, Message& message, const JsonField& field) {
    const std::string_view token = value.raw_json_token();
    if (token.starts_with('n')) {
      return trimmed(token) == "null" || fail(token.data(), "expected a value, found invalid JSON");
    }
    const Reflection& reflection = *reflection_;
    if (field.excludes_others &&
        reflection.HasOneof(message, field.field->real_containing_oneof())) {
      const auto* other =
          reflection.GetOneofFieldDescriptor(message, field.field->real_containing_oneof());
      return fail(token.data(),
                  "conflicts with " + in_quotes(other->json_name()) + ", which is also set");
    }
    if (field.form == JsonField::Form::map) return map(value, token, message, field);
    if (field.field->is_repeated()) return list(value, token, message, field);
    if (field.form == JsonField::Form::message) {
      return child(value, token, *reflection.MutableMessage(&message, field.field), *field.message);
    }
    return scalar(value, token, message, field, *field.field);
  }

  bool child(ondemand::value& value, std::string_view token, Message& message,
             const JsonMessage& type) {
    if (!token.starts_with('{')) return expected("an object", token);
    ondemand::object object;
    if (const auto failed = value.get_object().get(object)) return broken(failed);
    return members(object, message, type);
  }

  bool list(ondemand::value& value, std::string_view token, Message& message,
            const JsonField& field) {
    if (!token.starts_with('[')) return expected("a list", token);
    ondemand::array array;
    if (const auto failed = value.get_array().get(array)) return broken(failed);
    const Reflection& reflection = *reflection_;
    path_.push_back({});
    for (auto each : array) {
      ondemand::value item;
      if (const auto failed = std::move(each).get(item)) return broken(failed);
      const std::string_view start = item.raw_json_token();
      const bool read =
          field.form == JsonField::Form::message
              ? child(item, start, *reflection.AddMessage(&message, field.field), *field.message)
              : scalar(item, start, message, field, *field.field);
      if (!read) return false;
      ++path_.back().index;
    }
    path_.pop_back();
    return true;
  }

  // Entries of a map are messages with two fields.
  bool map(ondemand::value& value, std::string_view token, Message& message,
           const JsonField& field) {
    if (!token.starts_with('{')) return expected("an object", token);
    ondemand::object object;
    if (const auto failed = value.get_object().get(object)) return broken(failed);
    const FieldDescriptor& value_field = *field.field->message_type()->map_value();
    std::set<std::string, std::less<>> seen;
    for (auto member : object) {
      ondemand::field pair;
      if (const auto failed = std::move(member).get(pair)) return broken(failed);
      const char* const at = pair.key().raw() - 1;
      std::string_view key;
      if (const auto failed = pair.unescaped_key().get(key)) return broken(failed);
      if (!seen.emplace(key).second) return fail(at, "key " + in_quotes(key) + " occurs twice");
      path_.push_back({key, 0});
      Message& entry = *reflection_->AddMessage(&message, field.field);
      const Reflection* const outer = std::exchange(reflection_, entry.GetReflection());
      reflection_->SetString(&entry, field.field->message_type()->map_key(), std::string(key));
      ondemand::value item = pair.value();
      const std::string_view start = item.raw_json_token();
      const bool read = field.message != nullptr
                            ? child(item, start, *reflection_->MutableMessage(&entry, &value_field),
                                    *field.message)
                            : scalar(item, start, entry, field, value_field);
      if (!read) return false;
      reflection_ = outer;
      path_.pop_back();
    }
    return true;
  }

  // Stores into `target` of `message`: sets a single field, or appends to a repeated one.
  bool scalar(ondemand::value& value, std::string_view token, Message& message,
              const JsonField& field, const FieldDescriptor& target) {
    switch (target.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return integer<std::int32_t>(value, token, message, target, &Reflection::SetInt32,
                                     &Reflection::AddInt32);
      case FieldDescriptor::CPPTYPE_UINT32:
        return integer<std::uint32_t>(value, token, message, target, &Reflection::SetUInt32,
                                      &Reflection::AddUInt32);
      case FieldDescriptor::CPPTYPE_INT64:
        return integer<std::int64_t>(value, token, message, target, &Reflection::SetInt64,
                                     &Reflection::AddInt64);
      case FieldDescriptor::CPPTYPE_UINT64:
        return integer<std::uint64_t>(value, token, message, target, &Reflection::SetUInt64,
                                      &Reflection::AddUInt64);
      case FieldDescriptor::CPPTYPE_FLOAT:
        return real<float>(value, token, message, target, &Reflection::SetFloat,
                           &Reflection::AddFloat);
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return real<double>(value, token, message, target, &Reflection::SetDouble,
                            &Reflection::AddDouble);
      case FieldDescriptor::CPPTYPE_BOOL: return boolean(token, message, target);
      case FieldDescriptor::CPPTYPE_ENUM: return word(value, token, message, field, target);
      case FieldDescriptor::CPPTYPE_STRING: return text(value, token, message, target);
      case FieldDescriptor::CPPTYPE_MESSAGE: return time(value, token, message, target);
    }
    return fail(token.data(), "has an unsupported type");
  }

  template <typename T, typename Set, typename Add>
  bool store(Message& message, const FieldDescriptor& target, T value, Set set, Add add) {
    const Reflection& reflection = *reflection_;
    if (target.is_repeated()) {
      (reflection.*add)(&message, &target, std::move(value));
    } else {
      (reflection.*set)(&message, &target, std::move(value));
    }
    return true;
  }

  // The token of a number, also if it is quoted. simdjson skips unread values.
  bool number_text(ondemand::value& value, std::string_view token, std::string_view& number) {
    number = trimmed(token);
    if (!token.starts_with('"')) return true;
    if (const auto failed = value.get_string().get(number)) return broken(failed);
    return true;
  }

  template <typename T, typename Set, typename Add>
  bool integer(ondemand::value& value, std::string_view token, Message& message,
               const FieldDescriptor& target, Set set, Add add) {
    std::string_view number;
    if (!number_text(value, token, number)) return false;
    T read = 0;
    const auto failure = text::read_integer(number, read);
    if (!failure) return store(message, target, read, set, add);
    if (*failure == text::NumberFailure::not_whole) {
      return fail(token.data(), "must be a whole number, found " + in_quotes(number));
    }
    if (*failure == text::NumberFailure::not_a_number) return not_a_number(token, number);
    return fail(token.data(), in_quotes(number) + " is out of range (" +
                                  std::to_string(std::numeric_limits<T>::min()) + " to " +
                                  std::to_string(std::numeric_limits<T>::max()) + ")");
  }

  template <typename T, typename Set, typename Add>
  bool real(ondemand::value& value, std::string_view token, Message& message,
            const FieldDescriptor& target, Set set, Add add) {
    std::string_view number;
    if (!number_text(value, token, number)) return false;
    constexpr T kInfinity = std::numeric_limits<T>::infinity();
    T read = 0;
    if (token.starts_with('"') && number == "NaN") {
      read = std::numeric_limits<T>::quiet_NaN();
    } else if (token.starts_with('"') && (number == "Infinity" || number == "-Infinity")) {
      read = number.starts_with('-') ? -kInfinity : kInfinity;
    } else if (const auto failure = text::read_real(number, read)) {
      if (*failure == text::NumberFailure::not_a_number) return not_a_number(token, number);
      return fail(token.data(), in_quotes(number) + " is out of range");
    }
    return store(message, target, read, set, add);
  }

  bool boolean(std::string_view token, Message& message, const FieldDescriptor& target) {
    const std::string_view word = trimmed(token);
    if (word != "true" && word != "false") return expected("true or false", token);
    return store(message, target, word == "true", &Reflection::SetBool, &Reflection::AddBool);
  }

  bool text(ondemand::value& value, std::string_view token, Message& message,
            const FieldDescriptor& target) {
    if (!token.starts_with('"')) return expected("a string", token);
    std::string_view text;
    if (const auto failed = value.get_string().get(text)) return broken(failed);
    return store(message, target, std::string(text), &Reflection::SetString,
                 &Reflection::AddString);
  }

  // Later versions of a schema may have more values, so any number is accepted.
  bool word(ondemand::value& value, std::string_view token, Message& message,
            const JsonField& field, const FieldDescriptor& target) {
    std::optional<int> number;
    if (token.starts_with('"')) {
      std::string_view word;
      if (const auto failed = value.get_string().get(word)) return broken(failed);
      number = field.words->find(word);
      if (!number) {
        return fail(token.data(),
                    "unknown word " + in_quotes(word) + allowed_words(word, field.words->words()));
      }
    } else {
      int read = 0;
      if (text::read_integer(trimmed(token), read)) return expected("a word", token);
      number = read;
    }
    return store(message, target, *number, &Reflection::SetEnumValue, &Reflection::AddEnumValue);
  }

  bool time(ondemand::value& value, std::string_view token, Message& message,
            const FieldDescriptor& target) {
    if (!token.starts_with('"')) return expected("a time, as a string", token);
    std::string_view text;
    if (const auto failed = value.get_string().get(text)) return broken(failed);
    Timestamp time;
    if (!google::protobuf::util::TimeUtil::FromString(std::string(text), &time)) {
      return fail(token.data(),
                  in_quotes(text) + " is not a time; write one like 2026-11-21T08:00:00.5Z");
    }
    const Reflection& reflection = *reflection_;
    Message& field = target.is_repeated() ? *reflection.AddMessage(&message, &target)
                                          : *reflection.MutableMessage(&message, &target);
    field.CopyFrom(time);
    return true;
  }

  bool not_a_number(std::string_view token, std::string_view number) {
    if (token.starts_with('"')) {
      return fail(token.data(), "expected a number, found the string " + in_quotes(number));
    }
    return expected("a number", token);
  }

  bool expected(std::string_view wanted, std::string_view token) {
    const std::string_view found = token.empty() ? "nothing" : kind_of(token.front());
    std::string problem = "expected " + std::string(wanted) + ", found " + std::string(found);
    if (found == "invalid JSON") problem += ": " + in_quotes(trimmed(token));
    return fail(token.data(), std::move(problem));
  }

  // An error of simdjson, at its current token.
  bool broken(simdjson::error_code code) {
    const char* at = nullptr;
    if (document_.current_location().get(at) != simdjson::SUCCESS) at = json_.data() + json_.size();
    return broken(code, at);
  }

  // Null: position unknown.
  bool broken(simdjson::error_code code, const char* at) {
    if (at == nullptr) at = json_.data();
    switch (code) {
      case simdjson::EMPTY: return fail(json_.data(), "empty");
      case simdjson::UTF8_ERROR: return fail(json_.data(), "not UTF-8");
      case simdjson::UNESCAPED_CHARS: return fail(json_.data(), "control character in a string");
      case simdjson::UNCLOSED_STRING:
      case simdjson::INCOMPLETE_ARRAY_OR_OBJECT:
        return fail(json_.data() + json_.size(), "ends unexpectedly");
      default: break;
    }
    if (at >= json_.data() + json_.size()) return fail(at, "ends unexpectedly");
    return fail(at, "not valid JSON: " + std::string(simdjson::error_message(code)));
  }

  bool fail(const char* at, std::string problem) {
    problem_ = std::move(problem);
    const auto offset = at < json_.data() ? 0 : static_cast<std::size_t>(at - json_.data());
    buffers_.error_offset = std::min(offset, json_.size());
    return false;
  }

  // "workloads[0].workload: "; empty for the root object.
  [[nodiscard]] std::string path() const {
    std::string text;
    for (const PathStep& step : path_) {
      if (step.key.data() == nullptr) {
        text += "[" + std::to_string(step.index) + "]";
      } else {
        if (!text.empty()) text += '.';
        text += step.key;
      }
    }
    return text.empty() ? text : text + ": ";
  }

  const std::string_view json_;
  Buffers& buffers_;
  ondemand::document document_;
  const Reflection* reflection_ =
      nullptr;  // of the current message; cached because the lookup is slow
  std::vector<PathStep> path_;
  std::string problem_;
};

JsonReader::JsonReader() : buffers_(std::make_unique<Buffers>()) {}
JsonReader::~JsonReader() = default;
JsonReader::JsonReader(JsonReader&&) noexcept = default;
JsonReader& JsonReader::operator=(JsonReader&&) noexcept = default;

Result<void> JsonReader::read(std::string_view json, Message& message) {
  return Parser(json, *buffers_).read(message);
}

std::size_t JsonReader::error_offset() const {
  return buffers_->error_offset;
}

}  // namespace forestall::messages
