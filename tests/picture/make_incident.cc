// SPDX-License-Identifier: Apache-2.0
// make_incident FILE [WORKLOADS] [calm] [dry-run] [evil]: the recording of incident.h, for the
// browser's test and for viewing a report.
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "picture/incident.h"

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s FILE [WORKLOADS] [calm] [dry-run] [evil]\n", argv[0]);
    return 2;
  }
  forestall::test::Incident incident;
  for (int i = 2; i < argc; ++i) {
    const std::string_view word = argv[i];
    incident.calm = incident.calm || word == "calm";
    incident.dry_run = incident.dry_run || word == "dry-run";
    incident.evil_names = incident.evil_names || word == "evil";
    if (const int count = std::atoi(argv[i]); count >= 3) {
      incident.workloads = static_cast<std::size_t>(count);
    }
  }
  forestall::test::write_incident(argv[1], incident);
  return 0;
}
