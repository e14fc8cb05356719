// SPDX-License-Identifier: Apache-2.0
#include "cli/bpf_counter_text.h"

#include "tables/table.h"

namespace forestall::cli {

std::string bpf_counter_text(const google::protobuf::RepeatedPtrField<v1::BpfCounter>& counters) {
  if (counters.empty()) return {};
  tables::Table table({"object", "counter", "kind", "value", "loss"});
  bool any = false;
  for (const bool loss : {true, false}) {
    for (const v1::BpfCounter& each : counters) {
      if (each.loss() != loss || each.value() == 0) continue;
      table.add({each.object(), each.counter(), each.has_kind() ? each.kind() : "-",
                 std::to_string(each.value()), loss ? "yes" : "-"});
      any = true;
    }
  }
  return any ? "\nBPF counters that are not 0\n" + table.text() : "\nBPF counters: all 0\n";
}

}  // namespace forestall::cli
