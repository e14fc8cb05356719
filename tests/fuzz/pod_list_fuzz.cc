// SPDX-License-Identifier: Apache-2.0
// Any text as the output of `kubectl get pods -o json`: rejected with a message, or pods with an
// identity each that survive the round trip through our JSON.
#include <cstddef>
#include <cstdint>
#include <set>
#include <string_view>

#include "intake/pod_list.h"
#include "messages/convert.h"
#include "messages/json.h"
#include "require.h"

namespace forestall {
namespace {

using test::require;

void run(std::string_view input) {
  const auto listed = intake::parse_listed_pods(input);
  if (!listed.ok()) {
    require(!listed.error().text().empty());
    return;
  }
  std::set<std::string> uids;
  for (const intake::ListedPod& each : *listed) {
    require(!each.pod.name.empty());
    require(uids.insert(each.pod.uid).second && !each.pod.uid.empty());
    v1::Pod message;
    const std::string json =
        messages::to_json(messages::to_proto(each.pod), messages::JsonStyle::line);
    require(messages::from_json(json, message).ok());
    require(message.uid() == each.pod.uid);
  }
}

}  // namespace
}  // namespace forestall

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  forestall::run({reinterpret_cast<const char*>(data), size});
  return 0;
}
