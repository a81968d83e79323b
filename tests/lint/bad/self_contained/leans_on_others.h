#pragma once

inline std::string Name() { return "name"; }
