/* tslint:disable */
/* eslint-disable */
export const memory: WebAssembly.Memory;
export const start: (a: any) => void;
export const __wbindgen_exn_store: (a: number) => void;
export const __externref_table_alloc: () => number;
export const __wbindgen_externrefs: WebAssembly.Table;
export const __wbindgen_start: () => void;
