// SPDX-License-Identifier: Apache-2.0
// `forestall import-oomd`: oomd.json as Forestall's configuration.
#include "intake/oomd_import.h"

#include <fmt/format.h>

#include "base/printable.h"
#include "cli/exit_code.h"
#include "cli/rules_input.h"
#include "offline/commands.h"

namespace forestall::cli {

int run_import_oomd(const Options& options, const ImportOomdOptions& given) {
  text::Findings findings;
  const auto config = load_oomd_config(given.file, findings);
  if (!config) return refuse(options, findings);
  const auto imported = intake::import_oomd(given.file, *config, findings);
  if (!imported) return refuse(options, findings);
  fmt::print("{}", imported->yaml);
  for (const std::string& note : imported->notes) {
    fmt::print(stderr, "note: {}\n", printable(note));
  }
  return kExitOk;
}

}  // namespace forestall::cli
