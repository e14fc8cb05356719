// SPDX-License-Identifier: Apache-2.0
// Any text is either rejected with a message that names its place, or an observation that survives
// a round trip.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "messages/convert.h"
#include "messages/json.h"
#include "messages/json_reader.h"
#include "messages/observation_line.h"
#include "require.h"

namespace {

using namespace forestall;
using test::require;

// At the end of an allocation, so that a read beyond the padding is detected.
Result<messages::ObservedLine> read(std::string_view text) {
  const std::size_t size = text.size() + messages::JsonReader::kPadding;
  const std::unique_ptr<char[]> padded(new char[size]);
  text.copy(padded.get(), text.size());
  std::string(messages::JsonReader::kPadding, '\xff').copy(padded.get() + text.size(), size);
  static messages::ObservationLineReader reader;
  return reader.read({padded.get(), text.size()});
}

// A syntax error starts with its column; any other error names its field.
bool names_a_place(const std::string& message) {
  return message.find(": ") != std::string::npos;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  if (text.find('\n') != text.npos) return 0;  // never within a line
  const auto line = read(text);
  if (!line) {
    require(names_a_place(line.error().text()));
    return 0;
  }
  const auto message = messages::to_proto(line->observation);
  const auto again = read(messages::to_json(message, messages::JsonStyle::line));
  require(again.ok());
  require(again->observation == line->observation);
  return 0;
}
