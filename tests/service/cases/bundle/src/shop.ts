import { Purse } from "./money";

export function share(total: number, guests: string[]): number {
  const purse = new Purse(total);
  return purse.divided(guests.length);
}

export const checkout = (total: number): number => share(total, []);

try {
  checkout(4711);
} catch (error) {
  console.log((error as Error).stack);
}
